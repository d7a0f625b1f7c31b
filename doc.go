// Package headroom decides whether a subject may spend units of a metered thing in the present
// calendar window, and records what was spent. It charges each operation exactly once and never
// goes past the limit, whoever else is writing. It needs no lock, no scheduler, no cache and no
// transaction.
//
// An [Engine] joins a [Store] with a [Catalog] of plans and prices:
//
//	engine, err := headroom.New(store, catalog, headroom.Options{})
//	...
//	decision, err := engine.Deduct(ctx, headroom.Request{
//		Subject: "mira", Meter: "slots", Operation: "job-1", Cost: 30,
//	})
//	if err == nil && !decision.Allowed {
//		// The limit refuses it: decision says which one, what remains, and when the window ends.
//	}
//
// Stores are in the packages embedded (files on one host), dynamostore (DynamoDB) and memstore
// (memory, for tests). Package config reads a catalog from a file.
//
// # The words
//
// A subject is who is limited: a user, an organisation, an API key. A meter is what is counted, in
// units: slots, requests, tokens. One subject has one state for each meter.
//
// A [Window] is a calendar period, such as an ISO week. A [Limit] is the most units in one window.
// A [Plan] is a named set of limits. [Prices] turn a class of work and its quantity into a cost, in
// units.
//
// An operation is one piece of work with an id that the caller chooses: a job id, the ARN of an
// execution, an Idempotency-Key. However often it is asked for, it is charged once.
//
// A [Decision] says that a request is allowed or refused, and why. Used units are charged; held
// units are reserved for work that is under way. What remains is the limit without both.
//
// # Verbs
//
// Preflight looks before the work whether a cost would fit. It writes nothing and binds nobody.
// Deduct charges after the work has succeeded.
//
// Hold reserves units before the work. Then Settle charges the true cost, or Release gives the
// units back, or Extend lets the hold last longer. A hold that nobody ends is over at its time.
//
// Refund gives back units of a charge. Grant adds units beside those of the plan. SetPlan stores a
// subject's plan. Usage shows what a subject has used. Forget removes a subject.
//
// DeductWithin charges a user and its organisation, both or neither. FinishDebts finishes what was
// left undone when a caller of it died.
//
// # One pure decision, one guarded write
//
// A decision is a pure function of what is stored, the request and the time. It is written once, in
// this package. It comes to an answer, or to a [Change]: one atomic write, with the guard under
// which it holds.
//
// A store applies a change if its guard holds for what is stored. If not, it writes nothing and
// returns what it found, and the engine decides again. Only what is stored can refuse a request. A
// guard says no more than the decision needs ("the count is at most 170", not "the count is 120"),
// so writers of one count do not make one another try again.
//
// The stories in testdata/transcripts show it step by step: what is looked at, what is written and
// under which guard, and what is answered. A test plays them.
//
// # Errors
//
// A refusal is a [Decision], never an error. An error means that nothing was decided, and it says
// whether something can have been written: see [Code]. After an unknown outcome, repeat the request
// with the same operation id.
//
// # For authors of stores
//
// A store implements [Store]: it loads a [View], and commits a [Change]. It moves data and checks
// guards, and it never decides. The comment of each method is its contract.
//
// [Change.Unmet] says in Go what the guard of a change means, and [Change.Apply] what the change
// does to a [State]. A store that can keep a state in one piece calls these two; package memstore
// is the shortest example. A store whose engine checks conditions itself says the same in the
// engine's words. Package storetest is the suite that each store must pass: begin with
// storetest.Contract.
//
// A store that can change several keys in one step is a [Joiner] too: then a request may be of
// several meters.
//
// A store that keeps text needs no format of its own: [State.MarshalText] and [Change.MarshalText]
// write plain ASCII, one fact a line, without NUL and without a number for "no time". A [Record]
// and a [Debt] have a String method and a function that reads it. The example of [Store] is such a
// store, in whole.
//
// # The files
//
// Each file of the package refers only to files before it in this list. First time, plans and
// prices:
//
//	errors check zone period window price plan horizon catalog
//
// Then what is stored, and what can be done to it:
//
//	record debt bucket state generation change store guard apply textread text
//
// Then what is asked and answered, and the pure decision, with a file for each verb:
//
//	request decision standing allocation giveback reserve rules answer clear allow
//	charge hold refund grant several
//
// At last the engine and its methods:
//
//	engine attempt debts verbs within usage forget
package headroom
