"""Each sentence that a service says to people, as a message with places; and the phrases that stand in those places.

`service_words.py` finds and translates them; a test reads the services' sources for any that is missing here.
"""

from typing import Final

from django.utils.translation import gettext_noop

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
    gettext_noop("Intake of queue `{queue}` lets {percent} % of the tasks in; not this one yet."),
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
    gettext_noop("It is {state}."),
    gettext_noop("It is {state}: it did not happen."),
    gettext_noop("It is {state}; only CANCELLED and FAILED tasks are reopened."),
    gettext_noop("It is {state}; only READY and BLOCKED tasks are {what}."),
    gettext_noop("It is COMMITTED with another receipt."),
    gettext_noop("It has changed since it was looked at; look again."),
    gettext_noop(
        "It has FAILED: nothing is left to cancel. Reopen or revise it, or cancel the run."
    ),
    gettext_noop("It has its canonical commit. To replace the result, revise it."),
    gettext_noop("It has its canonical commit; nothing of it waits."),
    gettext_noop("It waits for no time."),
    gettext_noop("It waits until {at} already. To let it go earlier, wake it."),
    gettext_noop("It was cancelled; reopen it, then revise it."),
    gettext_noop("Its commit came first; the result stands. To replace it, revise the task."),
    gettext_noop(
        "Its result is in use: these nodes were claimed with it. Revise those that are not"
        " COMMITTED."
    ),
    gettext_noop("A newer revision of node `{name}` took this task's place; act on that one."),
    gettext_noop("A restore holds it: effects that can't be seen may be out. Release it first."),
    gettext_noop("No restore holds it; there is nothing to release."),
    gettext_noop("Its absence can't be sealed: {told}."),
    gettext_noop("Nothing of it is out: there is nothing to reconcile."),
    gettext_noop("The attempt that sent it has not ended; let it expire, or cancel the task."),
    gettext_noop("The call may be out right now; report it, or wait for its deadline."),
    gettext_noop("The look-up told nothing, or a later one has found the effect; look again."),
    gettext_noop("The look-up was stamped before the newest dispatch; make another one."),
    gettext_noop(
        "The incident is {state}; results are decided about between the bump and the switch."
    ),
    gettext_noop("The incident is {state}; what may come next is {what}."),
    gettext_noop("Node `{node}` had `{token}`; its lease ran out."),
    gettext_noop("Node `{node}` has `{token}`; one at a time."),
    gettext_noop("The queue is in SHADOW: the legacy system decides."),
    gettext_noop("The queue only offers READ_ONLY tasks; this is {replay}."),
    gettext_noop("{settled} of {needed} rounds settled since {at}."),
    gettext_noop("{count} mismatches that nobody has explained."),
    gettext_noop("The roll-up of the counted writes stands still."),
    gettext_noop("{percent} % of the writes of the last hour passed the guard."),
    gettext_noop("No fence drill has run on this queue."),
    gettext_noop("The last fence drill failed: {names}."),
    gettext_noop("The last fence drill passed at {at}."),
    gettext_noop("The request is void: {told}."),
    gettext_noop(
        "{told} Intake is held and nothing is sent until an operator has run"
        " `manage.py after_restore`."
    ),
    gettext_noop("This database was another one: {was} is now {now}."),
    gettext_noop("The rows of this database were loaded from a dump."),
    gettext_noop("The record outside names another database: {kept}, not {own}."),
    gettext_noop("This database was set back: its log ends before the position that was seen."),
    gettext_noop("Queue {queue} had epoch {before}; here it has {epoch}."),
    gettext_noop("The server is a standby: it grants nothing before it is promoted."),
    gettext_noop(
        "The record that is kept outside the database can't be read, so that nobody can say"
        " whether this is still the same database. Intake is held until it can be read again;"
        " `manage.py doctor` tells where it is."
    ),
    gettext_noop("It does not follow from the link before it."),
    gettext_noop("It has no link, and its neighbours have."),
    gettext_noop("It says {at} and was sealed behind what came long after."),
    gettext_noop("It stands behind the end of the chain."),
    gettext_noop("Link {number} has another digest than the one that was kept: {digest}."),
    gettext_noop("Link {number} is not there."),
    gettext_noop("The chain ends with {number}; what was behind it is gone."),
    gettext_noop("The event is gone, and no pruning says that it took it."),
    gettext_noop("The event is not the one that was sealed."),
    gettext_noop("The newest link is not the one that the chain remembers."),
    gettext_noop("it says that it happened, and gives no receipt"),
    gettext_noop("it says that it happened, with a receipt that can't be kept: {error}"),
    gettext_noop(
        "it says that it happened, with a receipt that is too large: {size} bytes, {digest}"
    ),
    gettext_noop("the look failed: {error}"),
    gettext_noop("the look-up failed: {error}"),
    gettext_noop("the look-up gave no answer but a {kind}"),
    gettext_noop("what is there can't be told as JSON"),
    gettext_noop("what is there is too large to be shown: {size} bytes"),
    gettext_noop("nobody confirmed it in time"),
    gettext_noop("the stage is {stage} by now"),
    gettext_noop("the epoch is {epoch} by now"),
    gettext_noop("the gate has closed: {told}"),
    gettext_noop("the call deadline has passed"),
    gettext_noop("the database was restored"),
    gettext_noop("a receipt turned up late"),
    gettext_noop("a string has a NUL character; remove it"),
    gettext_noop("a number beyond ±(2^53 - 1) would be read back as another; send it as a string"),
    gettext_noop("nested deeper than {most} levels; flatten it"),
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
    gettext_noop("Somebody is dealing with a restore."),
    gettext_noop("held back"),
    gettext_noop("woken"),
    gettext_noop("nothing"),
    gettext_noop("a receipt is on file"),
    gettext_noop("{guarantee} can't seal it now"),
)
