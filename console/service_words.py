"""What services say to people, in the reader's language.

Services speak English, as the API does: refusals, faults of fields, the verdicts of the shadow judge. Each of their
sentences stands here as a message with places; one that is said is found by its whole text, and told in the
translation with what stood in the places.
"""

import re
from functools import lru_cache
from typing import Final

from django.utils.translation import get_language, gettext, gettext_noop

from coordinator.outcomes import Outcome

SENTENCES: Final = (
    gettext_noop("Every earlier grant is void. {why}"),
    gettext_noop("This attempt's {counter} is no longer current; nothing was written."),
    gettext_noop(
        "This attempt's {counter} is ahead of what the database knows; nothing was written."
    ),
    gettext_noop("This attempt was granted to another credential; use the one that claimed it."),
    gettext_noop("A newer revision took this task's place."),
    gettext_noop("`input_digest` is not the digest of this task's input."),
    gettext_noop("The task was cancelled."),
    gettext_noop("This attempt has committed another result or other memory."),
    gettext_noop("The request has faults; see `errors`."),
    gettext_noop("There is no such {what}, or it is not yours to see."),
    gettext_noop(
        "A person must approve this exact payload; the task is parked and its attempt has ended."
    ),
    gettext_noop("`payload_digest` is not the bound payload's."),
    gettext_noop("Queue `{queue}` has an open incident: nothing new is sent until it is over."),
    gettext_noop("The queue is in stage {stage}: it sends nothing."),
    gettext_noop("Another effect may be out at `{downstream}` in this serial scope."),
    gettext_noop("It has happened; here is its receipt."),
    gettext_noop(
        "A call may be out ({state}). Look it up and reconcile it; never send again blindly."
    ),
    gettext_noop("This acceptance is over; its call may be out."),
    gettext_noop(
        "The slot is bound to another payload. Send that one, or revise the task; nothing was"
        " changed."
    ),
    gettext_noop("The plan declares `{declared}` for slot `{slot}`."),
    gettext_noop("`{downstream}` is not registered any more; ask an operator."),
    gettext_noop("An effect may be out: {names}. Find out what came of it and reconcile it first."),
    gettext_noop("This dispatch is over: its deadline has passed; don't act."),
    gettext_noop("This dispatch is over: it is closed, settled, or not the newest; don't act."),
    gettext_noop("The payload is not the one that was accepted; don't act."),
    gettext_noop("Another call has redeemed this dispatch; don't act."),
    gettext_noop("It is not the token that this dispatch was accepted with."),
    gettext_noop("Stamp a look-up before you make it: POST /effects/{id}/lookups."),
    gettext_noop("HAPPENED needs a receipt: how the downstream names what it did."),
    gettext_noop("Another dispatch was made since; what you say is kept as evidence."),
    gettext_noop("COMMITTED needs the receipt that the downstream gave."),
    gettext_noop("This attempt made no such dispatch of the effect."),
    gettext_noop("You redeemed no dispatch of this effect under it."),
    gettext_noop(
        "This Idempotency-Key has expired: its request was carried out, and its answer is no "
        "longer kept. Look for what it made; for a new request use a new key."
    ),
    gettext_noop(
        "This Idempotency-Key was used with another body; use a new key for a new request."
    ),
    gettext_noop("Say what is to be changed; the agent reads it."),
    gettext_noop("You submitted this run; somebody else must decide."),
    gettext_noop("Somebody has decided since you looked; look again."),
    gettext_noop("The approval is {state} ({told})."),
    gettext_noop("You saw another payload than the one that is bound; look at it again."),
    gettext_noop("It has been passed on since you looked: it is {whose} turn now."),
    gettext_noop(
        "`{to}` may not decide on this. It takes somebody active who may approve and see "
        "payloads, and has neither submitted the run nor decided yet."
    ),
    gettext_noop("Say why; the task fails with this reason."),
    gettext_noop("Say what you know, and what is being done."),
    gettext_noop("Say why; it stands in the audit's event."),
    gettext_noop("{count} audits are not finished yet; wait for one."),
    gettext_noop("say why in at least {count} characters"),
    gettext_noop("from 1 to {most} minutes"),
    gettext_noop("Only what a snooze has held back can be let go."),
    gettext_noop("None of these tasks allows it."),
    gettext_noop("It is not running."),
    gettext_noop("the filter leads through too many tasks; narrow it"),
    gettext_noop("no task is selected; choose at least one"),
    gettext_noop("Say until when the tasks are held back."),
    gettext_noop("The task is {state} and can't be claimed now; GET its `explain` says why."),
    gettext_noop("The task is at state version {version}, not {expected}; look again."),
    gettext_noop("Pool `{pool}` is not the active pool of queue `{queue}`."),
    gettext_noop("Pool `{pool}` asks for {contract}; send the X-Claim-Contract header."),
    gettext_noop("The queue's epoch is {epoch}."),
    gettext_noop("The queue's epoch is {epoch}, not {expected}; look again."),
    gettext_noop("Intake of queue `{queue}` is stopped."),
    gettext_noop("Name the digest of a staged result, or send `result`."),
    gettext_noop("A key is written twice; write each key once."),
    gettext_noop(
        "A version of shared memory moved; read it again and commit with the new "
        "`expected_version`."
    ),
    gettext_noop("The attempt was granted to another owner."),
    gettext_noop(
        "The lease has reached the queue's max_lease_seconds ({seconds}); a commit still works."
    ),
    gettext_noop("It is not the attempt that the address names."),
    gettext_noop("This attempt has staged no result with this digest; send `result`."),
    gettext_noop("The result's digest is {digest}; send that, or leave it out."),
    gettext_noop("This attempt has no blob `{name}`; put it first."),
    gettext_noop("An attempt stages at most {most} different results."),
    gettext_noop("An attempt puts at most {most} blobs."),
    gettext_noop("The blob's digest is {digest}."),
    gettext_noop("there is no queue {queue}; create it first"),
    gettext_noop("{scope} is no scope; the scopes are {scopes}"),
    gettext_noop("give it a name of 1 to {most} characters"),
    gettext_noop("there is no pool {pool}; create it first"),
    gettext_noop("name 1 to {most} queues"),
    gettext_noop("name at least one of {scopes}"),
    gettext_noop("this instant has passed; give a later one or leave it out"),
    gettext_noop("this instant has passed; give a later one"),
    gettext_noop("IDEMPOTENT_KEY needs it: for how long does it dedupe on a key?"),
    gettext_noop("downstream {name} is registered otherwise; change it by PATCH"),
    gettext_noop("queue {name} exists with another policy; change it by PATCH"),
    gettext_noop("pool {name} exists with min_contract {contract}"),
    gettext_noop("at least {least} seconds"),
    gettext_noop("at most max_ttl_seconds, which is {most}"),
    gettext_noop("at most max_lease_seconds, which is {most}"),
    gettext_noop("at most retry_backoff_max_seconds, which is {most}"),
    gettext_noop("there is no such role; roles: {roles}"),
    gettext_noop("somebody has this name already; take another"),
    gettext_noop("you set your own password in your profile"),
    gettext_noop("the account is disabled; enable it in the admin first"),
    gettext_noop("letters, digits and @ . + - _ are allowed, and no spaces"),
    gettext_noop("A run needs at least one node."),
    gettext_noop("{count} nodes; at most {most}. Split the run."),
    gettext_noop("{count} more faults are not listed."),
    gettext_noop("{value}; from {least} to {most} is allowed."),
    gettext_noop("It has no time zone; write it with `Z` or an offset."),
    gettext_noop("`{value}`; one of {words} is allowed."),
    gettext_noop("{count} slots; at most {most}."),
    gettext_noop("A READ_ONLY node declares no effect; remove the slots or change `replay`."),
    gettext_noop("{count} dependencies; at most {most}. Join them by a node between."),
    gettext_noop("Downstream `{name}` is not registered; register it first."),
    gettext_noop(
        "Downstream `{name}` ({guarantee}) makes the node NON_REPLAYABLE: {why}. Leave "
        "`replay` out, or choose another downstream."
    ),
    gettext_noop("`{name}` is the name of an earlier node."),
    gettext_noop("`{name}` stands here twice."),
    gettext_noop("There is no node `{name}`."),
    gettext_noop("A cycle: {path}. No node of it could ever start."),
    gettext_noop("There is no queue `{queue}`; create it first."),
    gettext_noop("The epoch of queue `{name}` is {epoch}, not what you expected; look again."),
    gettext_noop("Type `{wanted}`: that is what will be bumped."),
    gettext_noop(
        "Another word was given about {count} of these attempts; a result is decided about once."
    ),
    gettext_noop("This incident did not revoke {names}."),
    gettext_noop("Name one to {most} attempts, or leave it out for all that are undecided."),
    gettext_noop("Only a person runs an incident."),
    gettext_noop("The incident is at version {version}, not {expected}; look again."),
    gettext_noop("Say why; it stands in the incident's report."),
    gettext_noop(
        "The incident has switched to pool `{pool}`; once it is over, change the queue's policy."
    ),
    gettext_noop(
        "Of the old epoch {leases} leases still run, {effects} effects may be out and "
        "{results} results wait for a decision."
    ),
    gettext_noop("There is no pool `{pool}`; create it first."),
    gettext_noop("Queue `{queue}` has an open incident already; go on with that one."),
    gettext_noop("Queue `{queue}` has an open incident; its steps change this, nothing else does."),
    gettext_noop("Name one to {most} queues; for every queue send `all`."),
    gettext_noop("There are {count} queues; an incident holds {most}. Name them."),
    gettext_noop("There is no queue {names}."),
    gettext_noop("There is no queue yet."),
    gettext_noop("type the database's name, {name}"),
    gettext_noop("an epoch is from 1 to {most}"),
    gettext_noop("Only a person reveals."),
    gettext_noop("Only a person reveals; a worker is handed it whole."),
    gettext_noop("Say why in {least} characters or more."),
    gettext_noop("Nothing of it is masked."),
    gettext_noop("Say why nobody else can confirm it."),
    gettext_noop("Type the queue's name: {queue}."),
    gettext_noop("Only a person promotes a queue."),
    gettext_noop("There is no stage after this one."),
    gettext_noop("The queue is in stage {stage}, not {expected}; look again."),
    gettext_noop("It is no stage before {stage}."),
    gettext_noop("Say why; it stands in the queue's history."),
    gettext_noop("Say why; it stands in the history."),
    gettext_noop("There is nothing to explain: the round is {told}."),
    gettext_noop("Give an address that begins with https:// or http://."),
    gettext_noop("This round is of the class {verdict}."),
    gettext_noop("This instant has passed; give a later one."),
    gettext_noop("A class is explained for at most {most} days."),
    gettext_noop("There are {count} views already; delete one first."),
    gettext_noop("A view has this name already; take another."),
    gettext_noop("It is past: the time is {now}."),
    gettext_noop("It has {count} characters; {least} to {most} are allowed."),
    gettext_noop("It has a NUL character or half a surrogate pair; remove it."),
    gettext_noop("It has no canonical JSON form: {error}."),
    gettext_noop("A call may still arrive until {at}; look again after that."),
    gettext_noop("A worker reconciles under the fence of the attempt that holds the task."),
    gettext_noop(
        "All its nodes have committed; the results stand. To replace one, revise its task."
    ),
    gettext_noop(
        "Ask for changes instead: then the task goes back to the agent and does not fail."
    ),
    gettext_noop(
        "At most {most} JSON pointers such as /card/number or /to/*/iban, of at most {length}"
        " characters each."
    ),
    gettext_noop("At most {days} days from now: {at} or earlier."),
    gettext_noop(
        "Blob `{name}` is there with other bytes; a blob never changes, choose another name."
    ),
    gettext_noop("From 0 to 99; the whole intake is opened by the end of the incident."),
    gettext_noop("It is called `{name}` by now; look again."),
    gettext_noop("It is larger than {most} bytes; put a blob and send its name."),
    gettext_noop("It is revoked or has expired: there is nothing to rotate. Create a new one."),
    gettext_noop("It is still at work, or was never started; stop it, or wait for its end."),
    gettext_noop("It is {state}: its outcome is not open."),
    gettext_noop("It is {state}: nothing waits for what is there."),
    gettext_noop(
        "No adapter that can tell what is there is registered for `{downstream}` (TENURE_ADAPTERS)."
    ),
    gettext_noop("Nothing has been sent there lately: there is nothing to ask about."),
    gettext_noop(
        "Nothing is left to cancel: its unfinished nodes have FAILED. Reopen or revise them."
    ),
    gettext_noop("Only a person approves or rejects; a worker's credential never does."),
    gettext_noop("Only a snooze has a time; leave it out."),
    gettext_noop("Pool `{pool}` has no live credential with the scope `work` for {queues}."),
    gettext_noop("Send the epoch of each queue of the incident, and of no other: {names}."),
    gettext_noop("Send the incident's version that you saw; a part of the intake is bound to it."),
    gettext_noop("Somebody has changed it since you looked; look again."),
    gettext_noop(
        "State in at least {least} characters how it is known that the old process will not wake."
    ),
    gettext_noop("The effect has {count} dispatches, you judged {seen}; look again."),
    gettext_noop("The incident has several queues; send `expected_epochs`, each by its name."),
    gettext_noop("The key's validity would end before this call can have arrived. {told}"),
    gettext_noop(
        "The plan declares no slot `{slot}` for this node (declared: {names}); a new one is a"
        " new revision."
    ),
    gettext_noop("The request is over: nobody decides by what is there."),
    gettext_noop("The request is {state} ({who}: {told})."),
    gettext_noop("The review is more than an hour old; look at the tasks again."),
    gettext_noop("The roles are {roles} by now; look again."),
    gettext_noop("The server is a standby. Promote it first."),
    gettext_noop("The task is {state}: it waits for no approval any more."),
    gettext_noop(
        "This database is the one that it says it is, and nothing is unfinished: there is "
        "nothing to do."
    ),
    gettext_noop("Whoever starts it has to have reviewed it; make a review of your own."),
    gettext_noop(
        "You asked for this promotion; somebody else must confirm it, or you say that you are"
        " `alone`, and why."
    ),
    gettext_noop("You opened this incident; let somebody else bump it, or type why you are alone."),
    gettext_noop("You saw other figures than those that the request is based on; look again."),
    gettext_noop("`{kind}` is the fence drill's own; choose another kind."),
    gettext_noop("a superuser has every permission; take that from them first (manage.py shell)"),
    gettext_noop("a superuser's password is set on the server (manage.py changepassword)"),
    gettext_noop("from 0 to {most} hours"),
    gettext_noop("there are {count} tokens that are not revoked; revoke one first"),
    gettext_noop("there is no queue {name}; there are: {names}"),
    gettext_noop("this is the last person who administers; give somebody else the role first"),
    gettext_noop(
        "{size} bytes of JSON; at most {most}. Put the bulk where a name can point to it."
    ),
    gettext_noop("{who} has asked for it already: confirm that, or withdraw it first."),
    gettext_noop("{who} made this view: they and administrators may change it."),
    gettext_noop(
        "{names} of this task has happened; done anew it would happen again. Reject it, and "
        "revise the task by hand with what is left to do."
    ),
    gettext_noop("{least} to {most} minutes."),
    gettext_noop("{told}. Mend it, or move it away and give each queue's highest known epoch"),
    gettext_noop("handed it to `{owner}`"),
    gettext_noop("took the result of `{owner}`"),
    gettext_noop("kept the result of `{owner}`"),
    gettext_noop("never finished it"),
    gettext_noop("NOT_CLAIMABLE: `{owner}` holds it until {at}"),
    gettext_noop("NOT_CLAIMABLE: it is {state}"),
    gettext_noop("COMMITTED: the result of `{owner}`"),
    gettext_noop("not finished: no claim of it was seen"),
    gettext_noop("not finished: nobody held it"),
    gettext_noop("not finished: it would be offered again"),
)
#: What stands in the places of a sentence and is ours as well.
PHRASES: Final = (
    gettext_noop("scheduler epoch"),
    gettext_noop("claim generation"),
    gettext_noop("cancel generation"),
    gettext_noop("claim"),
    gettext_noop("approval"),
    gettext_noop("attempt"),
    gettext_noop("attempt of this effect's task"),
    gettext_noop("audit"),
    gettext_noop("blob"),
    gettext_noop("break-glass session"),
    gettext_noop("bulk job"),
    gettext_noop("credential"),
    gettext_noop("dispatch of this effect"),
    gettext_noop("downstream"),
    gettext_noop("effect of this task"),
    gettext_noop("effect"),
    gettext_noop("incident"),
    gettext_noop("key of shared memory"),
    gettext_noop("look at what is there"),
    gettext_noop("person"),
    gettext_noop("promotion request"),
    gettext_noop("queue"),
    gettext_noop("run"),
    gettext_noop("shadow round"),
    gettext_noop("task"),
    gettext_noop("token"),
    gettext_noop("view"),
    gettext_noop("attempt in queue `{queue}`"),
    gettext_noop("nobody decided in time"),
    gettext_noop("open; wait for its verdict"),
    gettext_noop("one on which both agree"),
)
#: Places in which a phrase or a sentence of ours stands; in all others somebody's own words may.
_OURS: Final = frozenset({"what", "counter", "told", "why"})
_PLACE: Final = re.compile(r"\\{(\w+)\\}")


def in_words(text: str) -> str:
    """A sentence of ours in the reader's language; anything else as it is. Escape and mask it as before."""
    if (get_language() or "en").startswith("en"):
        return text
    found = _find(text)
    if found is not None:
        message, places = found
        told = {name: in_words(value) if name in _OURS else value for name, value in places}
        return gettext(message).format(**told) if places else gettext(message)
    outcome, colon, detail = text.partition(": ")
    return f"{outcome}: {in_words(detail)}" if colon and outcome in Outcome.__members__ else text


@lru_cache(maxsize=1_000)
def _find(text: str) -> tuple[str, tuple[tuple[str, str], ...]] | None:
    """The message that the whole text is, and what stands in its places."""
    if text in _WITHOUT_PLACES:
        return text, ()
    for pattern, message in _WITH_PLACES:
        if found := pattern.fullmatch(text):
            return message, tuple(found.groupdict().items())
    return None


def _pattern_of(message: str) -> "re.Pattern[str]":
    return re.compile(_PLACE.sub(r"(?P<\1>.+?)", re.escape(message)), re.DOTALL)


def _literal_length(message: str) -> int:
    return len(re.sub(r"\{\w+\}", "", message))


_WITHOUT_PLACES: Final = frozenset(each for each in (*SENTENCES, *PHRASES) if "{" not in each)
#: The one that says most by itself first: a place takes anything.
_WITH_PLACES: Final = tuple(
    (_pattern_of(message), message)
    for message in sorted((*SENTENCES, *PHRASES), key=_literal_length, reverse=True)
    if message not in _WITHOUT_PLACES
)
