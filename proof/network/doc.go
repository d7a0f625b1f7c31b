// Package network checks what is charged over a network that fails: a proxy stands between the SDK's client and an engine, each a real server on a TCP port, and loses requests and answers, holds requests back, sends them twice, cuts answers
// off, and answers in the engine's place that it failed, throttles, or has a transaction on the item. Which request meets what is drawn from a seed.
//
// Many goroutines deduct, hold, settle and release for subjects near their limit and far from it, and repeat an id, as a caller does, after an error, and now and then though it was answered. The week turns twice. Beside them a plain ledger
// (ledger_test.go) keeps, for each id, the least and the most that it can have counted by then. So at any time it knows bounds of what a subject has used, and fails the test if
//
//   - a count, as it is shown by a decision or read from the item, is over the limit, below what was acknowledged, or above all that was asked for;
//   - something is refused that fits whatever had become of every other request meanwhile;
//   - a repeat is answered with anything but the first decision.
//
// In the end, over a network that works again, what has no answer yet is asked for once more. Then the tables are read as they are: each id that was acknowledged is there with its cost, none is there twice, what was never acknowledged is not there,
// and all of them add up to the counts of all weeks.
//
// A request that is held back, or sent twice, may have its effect after its caller was told that the units were not there: nobody can call a request back from a network that has it. Such a late charge is within the limit, and the
// caller can have known of it by asking for the id again. The note of a row says how many there were; under every other fault there must be none.
//
// HEADROOM_PROOF_SEED=N makes the same requests meet the same faults, by their number; which request has which number is up to the goroutines.
package network
