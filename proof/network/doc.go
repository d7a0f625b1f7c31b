// Package network checks what is charged over a network that fails. A proxy stands between the
// SDK's client and an engine, which are real programs that speak over TCP. The proxy loses requests
// and answers, holds requests back, sends them twice and cuts answers off. It also answers in the
// engine's place that the engine failed, throttles, or runs a transaction on the item. A seed
// decides which request meets which fault.
//
// Many goroutines deduct, hold, settle and release for subjects that are near their limit and for
// others that are far from it. After an error they repeat the id, as a caller does, and now and
// then they repeat one that was answered. The week turns twice. A plain ledger beside them
// (ledger_test.go) keeps, for each id, the least and the most that it can have counted by then. So
// it knows bounds for what a subject has used at any time, and fails the test if
//
//   - a count, in a decision or in the item itself, is over the limit, below what was acknowledged,
//     or above all that was asked for;
//   - something is refused that would have fitted whatever became of all other requests;
//   - a repeat is answered with anything but the first decision.
//
// At the end the network works again, and whatever has no answer yet is asked for once more. Then
// the test reads the tables themselves. Each id that was acknowledged must be there once, with its
// cost. No id may be there that was never asked for, or that was refused. All ids together must add
// up to the counts of all weeks.
//
// A request that is held back or sent twice may take effect after its caller was told that the
// units were not there, because nobody can call a request back from a network. Such a late charge
// is within the limit, and its caller can learn of it by asking for the id again. A row's note says
// how many there were. Under every other fault there must be none.
//
// HEADROOM_PROOF_SEED=N lets the same request numbers meet the same faults. Which request gets
// which number depends on the goroutines.
package network
