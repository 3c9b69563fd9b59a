"""Credentials, and who one is (contract 15)."""

from dataclasses import dataclass

from coordinator.access import Operation
from coordinator.actors import Worker
from coordinator.api.bodies.administration import CredentialBody
from coordinator.api.endpoint import Call, Endpoint, operation
from coordinator.api.pages import Page, PageQuery, page_of
from coordinator.api.paths import uuid_of
from coordinator.outcomes import Outcome, Refusal
from coordinator.selectors.credentials import CredentialRecord, all_credentials, credential_record
from coordinator.services.credentials import Issued, Revoked, issue_credential, revoke_credential


@dataclass(frozen=True, slots=True)
class Me:
    """The caller. A worker has a pool, queues and scopes; a person has permissions."""

    kind: str
    name: str
    pool: str | None
    queues: list[str] | None
    scopes: list[str] | None
    permissions: list[str] | None


class WhoAmI(Endpoint):
    @operation(Operation.READ_ME, "Who this credential is, and what it may do", answer=Me)
    def get(self, call: Call[None]) -> Me:
        caller = call.caller
        if isinstance(caller, Worker):
            return Me(
                caller.kind,
                caller.name,
                caller.pool,
                sorted(caller.queues),
                sorted(caller.scopes),
                None,
            )
        return Me(caller.kind, caller.name, None, None, None, sorted(caller.permissions))


class Credentials(Endpoint):
    @operation(
        Operation.LIST_CREDENTIALS,
        "List the workers' credentials, newest first",
        answer=Page[CredentialRecord],
        query=PageQuery,
    )
    def get(self, call: Call[None]) -> Page[CredentialRecord]:
        return page_of(call.request, call.query, all_credentials(), credential_record, key="id")

    @operation(
        Operation.CREATE_CREDENTIAL,
        "Make a worker's credential; its token is in this answer only",
        body=CredentialBody,
        answer=Issued,
        status=201,
        keyed=True,
    )
    def post(self, call: Call[CredentialBody]) -> Issued | Refusal:
        body = call.body
        return issue_credential(
            name=body.name,
            pool=body.pool,
            queues=body.queues,
            scopes=body.scopes,
            expires_at=body.expires_at,
            actor=call.caller,
            request=call.request_key(),
        )


class OneCredential(Endpoint):
    @operation(
        Operation.REVOKE_CREDENTIAL,
        "Revoke a credential at once; a repeat changes nothing",
        answer=Revoked,
        refusals=(Outcome.NOT_FOUND,),
    )
    def delete(self, call: Call[None], credential_id: str) -> Revoked | Refusal:
        return revoke_credential(
            credential_id=uuid_of(credential_id, "credential"), actor=call.caller
        )
