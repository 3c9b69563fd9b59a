/* claim.v1 a second time, in another language and with real numbers where the Python model has equality only.
 *
 * One task with one effect slot; two workers that may freeze anywhere and wake; a person who cancels, an incident that
 * bumps; a coordinator that sweeps and looks up; an outside that performs calls now, later or never. Each atomic block
 * is one transaction under the task's row lock. What can't be atomic is not: waiting for the queue's gate, and the way
 * between an answer and the call.
 *
 * One class of downstream a run:  -DKEYED -DCONDITIONAL -DGATED -DREFUSES_LATE
 * One broken rule at most:        -DNO_GENERATION_CHECK and the others that are named below
 */

#ifndef GENERATIONS
#define GENERATIONS 3
#endif
#ifndef DISPATCHES
#define DISPATCHES 2
#endif

mtype = { READY, CLAIMED, WAITING, DONE, CANCELLED };               /* the task: WAITING is AWAITING_RECONCILIATION */
mtype = { UNBOUND, PREPARED, ACCEPTED, UNKNOWN, RESENDABLE, HAPPENED, VOID };       /* the slot: HAPPENED is COMMITTED */
mtype = { NONE, HELD, SENT, INSIDE, OVER };                         /* a call: the truth, which the ledger can't see */
mtype = { OPEN, SUCCEEDED, REFUSED, CLOSED };                       /* a dispatch, as the ledger knows it */

/* --- the rows ------------------------------------------------------------------------------------------------- */
mtype task = READY;
byte generation = 0, epoch = 1, cancels = 0;    /* of the task, of its queue, of the task */
byte holder = 0;                                /* the current grant's generation; 0: nobody's */
mtype slot = UNBOUND;
byte dispatches = 0;
mtype outcome[DISPATCHES];
byte by_generation[DISPATCHES], by_epoch[DISPATCHES], by_cancels[DISPATCHES];
bool receipt[DISPATCHES], redeemed[DISPATCHES];
bool granted_approval = false, approval_expired = false;

/* --- the outside, and what only an all-seeing reader knows ------------------------------------------------------- */
mtype call[DISPATCHES];
bool late[DISPATCHES], answered[DISPATCHES];
byte performed = 0, commits = 0;
bool granted[GENERATIONS + 2];
bool exclusive = false;                         /* the queue's gate is held alone, by a bump */
bool intake = true, bumped = false, bump_returned = false;

#define may_be_out   (slot == ACCEPTED || slot == UNKNOWN || slot == RESENDABLE)
#define alive(d)     (d < dispatches && outcome[d] == OPEN)
#define in_flight(d) (d < dispatches && (call[d] == HELD || call[d] == SENT || call[d] == INSIDE))

/* A call that can still take effect. What is held dies with its deadline only where the receiver refuses late calls;
 * a gated one only where the gate lets it in no more. */
#if defined(GATED)
#define can_land(d) (in_flight(d) && (call[d] == INSIDE || (outcome[d] == OPEN && !redeemed[d] && by_generation[d] == holder \
                    && by_epoch[d] == epoch && by_cancels[d] == cancels && task == CLAIMED)))
#elif defined(REFUSES_LATE)
#define can_land(d) (in_flight(d) && !late[d])
#else
#define can_land(d) (in_flight(d) && performed == 0)    /* the second arrival is deduplicated, or meets a false condition */
#endif
#define something_lands (can_land(0) || can_land(1))

/* --- the guard of contract 3, and the truth that it is held against ------------------------------------------------ */
#ifdef NO_GENERATION_CHECK
#define same_generation(g) true
#else
#define same_generation(g) (g == holder && g == generation)
#endif
#ifdef NO_EPOCH_CHECK
#define same_epoch(mine, seen) true
#else
#define same_epoch(mine, seen) (mine == seen)
#endif
#ifdef NO_CANCEL_CHECK
#define same_cancel(c) true
#define claimed_now (task == CLAIMED || task == CANCELLED)
#else
#define same_cancel(c) (c == cancels)
#define claimed_now (task == CLAIMED)
#endif
#ifdef RECEIPT_UNFENCES
#define revived(g) (g > 0 && ((dispatches > 0 && receipt[0] && by_generation[0] == g) || (dispatches > 1 && receipt[1] && by_generation[1] == g)))
#else
#define revived(g) false
#endif
#define is_current(g, e, c, seen) (claimed_now && same_epoch(e, seen) && same_cancel(c) && (same_generation(g) || revived(g)))

inline owner_is_true(g, e, c) { assert(g == holder && e == epoch && c == cancels && task == CLAIMED) }

/* Every end of an attempt: unredeemed gated calls are closed with it, others become UNKNOWN (contract 7, 8.5). */
inline end_attempt() {
  d_step {
    holder = 0;
    if
    :: slot == ACCEPTED || slot == UNKNOWN ->
#ifdef GATED
       k = 0;
       do
       :: k < DISPATCHES -> if :: alive(k) && !redeemed[k] -> outcome[k] = CLOSED :: else fi; k++
       :: else -> break
       od;
       if
       :: alive(0) || alive(1) -> slot = UNKNOWN
       :: else -> slot = PREPARED
       fi;
#else
       slot = UNKNOWN;
#endif
    :: else
    fi;
    k = 0
  }
}

/* A worker takes over and asks (KEYED, CONDITIONAL, REFUSES_LATE); of a gated call only a person can tell. */
#if defined(GATED)
#define nobody_can_settle (slot == UNKNOWN)
#else
#define nobody_can_settle false
#endif

/* What accept asks of the slot, and of a person where one is asked. */
#ifdef BLIND_RESEND
#define sendable (slot == PREPARED || slot == RESENDABLE || slot == UNKNOWN)
#else
#define sendable (slot == PREPARED || slot == RESENDABLE)
#endif
#ifdef APPROVED
#define approved(expired) (granted_approval && !expired)
#else
#define approved(expired) true
#endif
#ifdef COMMIT_WITH_UNKNOWN
#define nothing_out true
#else
#define nothing_out (!may_be_out)
#endif

/* The gate asks for the dispatch, its attempt, the slot and the deadline, at the moment of the act (8.5). */
#define redeemable(d) (outcome[d] == OPEN && !redeemed[d] && d == dispatches - 1 && (slot == ACCEPTED || slot == UNKNOWN) \
                      && task == CLAIMED && by_generation[d] == holder && by_epoch[d] == epoch && by_cancels[d] == cancels \
                      && !late[d])

inline arrive(d) {
#if defined(GATED)
  if
  :: redeemable(d) -> redeemed[d] = true; call[d] = INSIDE
  :: else -> call[d] = OVER
  fi
#elif defined(REFUSES_LATE)
  if
  :: !late[d] -> performed++; assert(performed == 1); call[d] = OVER; answered[d] = true
  :: else -> call[d] = OVER
  fi
#elif defined(GENERATION_IN_KEY)
  /* the key is another one for each generation: only the same generation's call is deduplicated */
  if
  :: d == 1 && answered[0] && by_generation[0] == by_generation[1] -> answered[1] = true; call[1] = OVER
  :: else -> performed++; assert(performed == 1); call[d] = OVER; answered[d] = true
  fi
#elif defined(KEYED)
  if
  :: performed == 0 -> performed++; call[d] = OVER; answered[d] = true
  :: else -> call[d] = OVER; answered[d] = true            /* the first result again */
  fi
#else
  if
  :: performed == 0 -> performed++; call[d] = OVER; answered[d] = true
  :: else -> call[d] = OVER                                 /* the condition is false: UNKNOWN to the worker */
  fi
#endif
}

#define claimable (!exclusive && intake && generation < GENERATIONS && (task == READY || task == CLAIMED))

/* A grant, or the lease's end in a task whose effect no worker can settle (contract 7). */
inline grant(number) {
  assert(known == epoch);
  if :: task == CLAIMED -> end_attempt() :: else fi;
  if
  :: nobody_can_settle -> task = WAITING
  :: else ->
     generation = number; assert(!granted[generation]);
     granted[generation] = true; holder = generation; task = CLAIMED;
     g = generation; e = known; c = cancels
  fi
}

active [2] proctype worker() {
  byte g = 0, e = 0, c = 0, known = 1, seen = 0, next = 0, k = 0, d = 0;
  bool began_expired = false;
  do
  /* the epoch that this worker believes in; it learns of a newer one when it asks */
  :: atomic { known != epoch -> known = epoch }

  /* claim: a new grant, or a take-over of a lease that has run out. The epoch is judged as it is under the gate. */
#if defined(DOUBLE_GRANT)
  :: atomic { claimable -> next = generation + 1 };
     atomic { claimable && same_epoch(known, epoch) -> grant(next); next = 0 }
#elif defined(EPOCH_BY_JOIN)
  :: atomic { claimable -> seen = epoch };
     atomic { claimable && same_epoch(known, seen) -> grant(generation + 1); seen = 0 }
#else
  :: atomic { claimable && same_epoch(known, epoch) -> grant(generation + 1) }
#endif

  /* prepare */
  :: atomic { g > 0 && !exclusive && is_current(g, e, c, epoch) && slot == UNBOUND ->
       owner_is_true(g, e, c); slot = PREPARED }

  /* accept: durable before any byte goes out */
#ifdef NOW_FOR_THE_CLOCK
  :: atomic { g > 0 && dispatches < DISPATCHES && sendable -> began_expired = approval_expired };
     atomic { !exclusive && is_current(g, e, c, epoch) && intake && dispatches < DISPATCHES && sendable && approved(began_expired) ->
#else
  :: atomic { g > 0 && !exclusive && is_current(g, e, c, epoch) && intake && dispatches < DISPATCHES && sendable && approved(approval_expired) ->
#endif
       owner_is_true(g, e, c);
#ifdef APPROVED
       assert(granted_approval && !approval_expired);
       granted_approval = false;
#endif
       assert(!(dispatches > 0 && (receipt[0] || outcome[0] == SUCCEEDED)));
       d = dispatches; dispatches++; slot = ACCEPTED; outcome[d] = OPEN; call[d] = HELD;
       by_generation[d] = g; by_epoch[d] = e; by_cancels[d] = c; d = 0 }

  /* send: any time later, frozen in between or not; the fence is not asked again */
  :: atomic { dispatches > 0 && call[0] == HELD && by_generation[0] == g && g > 0 -> call[0] = SENT }
  :: atomic { dispatches > 1 && call[1] == HELD && by_generation[1] == g && g > 0 -> call[1] = SENT }

  /* report: COMMITTED where an answer came, else UNKNOWN. Current: it counts. Late: it is kept as evidence (8.3). */
  :: atomic { dispatches > 0 && !exclusive && answered[dispatches - 1] && by_generation[dispatches - 1] == g && !receipt[dispatches - 1] ->
       d = dispatches - 1; receipt[d] = true;
       if
       :: is_current(g, e, c, epoch) && (may_be_out) -> outcome[d] = SUCCEEDED; slot = HAPPENED
       :: else -> if :: slot == PREPARED || slot == RESENDABLE -> slot = UNKNOWN :: else fi
       fi; d = 0 }
  :: atomic { dispatches > 1 && !exclusive && answered[0] && by_generation[0] == g && !receipt[0] ->
       receipt[0] = true; if :: slot == PREPARED || slot == RESENDABLE -> slot = UNKNOWN :: else fi }
  :: atomic { g > 0 && !exclusive && is_current(g, e, c, epoch) && slot == ACCEPTED -> slot = UNKNOWN }

  /* release */
  :: atomic { g > 0 && !exclusive && is_current(g, e, c, epoch) ->
       owner_is_true(g, e, c); end_attempt();
       if :: nobody_can_settle -> task = WAITING :: else -> task = READY fi; g = 0; e = 0; c = 0 }

  /* commit: the epoch is read in the statement after the gate is held */
  :: atomic { g > 0 && !exclusive && is_current(g, e, c, epoch) && nothing_out ->
       owner_is_true(g, e, c);
       commits++; assert(commits == 1);
       assert(slot == HAPPENED || (performed == 0 && !something_lands));
       task = DONE; holder = 0; if :: slot == PREPARED -> slot = VOID :: else fi;
       g = 0; e = 0; c = 0 }
  :: task == DONE || task == CANCELLED -> 
     if
     :: dispatches > 0 && g > 0 && ((call[0] == HELD && by_generation[0] == g) || (dispatches > 1 && call[1] == HELD && by_generation[1] == g)) -> skip
     :: else -> break
     fi
  od
}

/* What is on the way arrives now, later, or never; twice only where the class bears it. */
active proctype outside() {
  byte d = 0;
  do
  :: atomic { dispatches > 0 && call[0] == SENT -> d = 0; arrive(d) }
  :: atomic { dispatches > 1 && call[1] == SENT -> d = 1; arrive(d) }
  :: atomic { dispatches > 0 && call[0] == INSIDE -> performed++; assert(performed == 1); call[0] = OVER; answered[0] = true }
  :: atomic { dispatches > 1 && call[1] == INSIDE -> performed++; assert(performed == 1); call[1] = OVER; answered[1] = true }
  :: atomic { dispatches > 0 && !late[0] -> late[0] = true }
  :: atomic { dispatches > 1 && !late[1] -> late[1] = true }
  :: task == DONE && !in_flight(0) && !in_flight(1) -> break
  :: task == CANCELLED && !in_flight(0) && !in_flight(1) -> break
  od
}

/* The coordinator's own: deadlines, and look-ups of what nobody can tell. */
active proctype coordinator() {
  byte judged = 0, k = 0;
  bool seen_there = false, all_late = false;
  do
  :: atomic { slot == ACCEPTED && dispatches > 0 && late[dispatches - 1] -> slot = UNKNOWN }
  /* a look-up: stamped, made, and only then written down, with the count that it judged (8.4) */
  :: atomic { slot == UNKNOWN || slot == RESENDABLE ->
       judged = dispatches; seen_there = (performed > 0);
       all_late = (late[0] && (dispatches < 2 || late[1])) };
     atomic {
       if
       :: (slot == UNKNOWN || slot == RESENDABLE) && judged == dispatches ->
          if
          :: seen_there -> slot = HAPPENED
          :: else ->
             if
             :: (dispatches > 0 && receipt[0]) || (dispatches > 1 && receipt[1]) -> skip       /* a receipt bars it */
#if defined(GATED)
             :: else -> if :: !(alive(0) && redeemed[0]) && !(alive(1) && redeemed[1]) && holder == 0 -> slot = PREPARED :: else fi
#elif defined(REFUSES_LATE)
             :: else ->
                if
                :: all_late -> slot = PREPARED;
                   k = 0; do :: k < DISPATCHES -> if :: alive(k) -> outcome[k] = CLOSED :: else fi; k++ :: else -> break od; k = 0
                :: else
                fi
#elif defined(ONE_STATE)
             :: else -> slot = PREPARED
#else
             :: else -> slot = RESENDABLE
#endif
             fi
          fi;
          if :: task == WAITING && !(slot == UNKNOWN) -> task = READY :: else fi
       :: else
       fi; judged = 0; seen_there = false; all_late = false }
  :: task == DONE || (task == CANCELLED && !(slot == UNKNOWN || slot == RESENDABLE || slot == ACCEPTED)) -> break
  od
}

/* A person: one cancel, one approval that may expire, one incident. */
active proctype people() {
  byte k = 0; bool cancelled = false, asked = false;
  do
  :: atomic { !cancelled && (task == READY || task == CLAIMED || task == WAITING) && !exclusive ->
       cancelled = true; cancels++;
       end_attempt(); task = CANCELLED;
       /* the receipt lists what may be out; what it leaves out has not happened and can't any more */
       assert((may_be_out) || slot == HAPPENED || (performed == 0 && !something_lands)) }
#ifdef APPROVED
  :: atomic { !asked -> asked = true; granted_approval = true }
  :: atomic { asked && !approval_expired -> approval_expired = true }
#endif
  /* the bump waits for the gate, alone; what began before has ended, what begins now waits */
  :: atomic { !bumped && task != DONE -> bumped = true; intake = false; exclusive = true };
     atomic { epoch++;
       if :: task == CLAIMED -> end_attempt(); if :: slot == UNKNOWN && nobody_can_settle -> task = WAITING :: else -> task = READY fi
       :: else fi;
       exclusive = false; bump_returned = true };
     atomic { !(may_be_out) || task == CANCELLED || task == DONE -> intake = true }
  :: cancelled || task == DONE || (bumped && intake) -> break
  od
}

/* Not vacuous: what is given as REACHED must be found, or the search has proved nothing about it. */
#ifdef REACHED
active proctype reader() { atomic { REACHED -> assert(false) } }
#endif
