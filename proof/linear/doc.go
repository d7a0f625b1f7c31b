// Package linear checks that the decisions of real stores are linearizable: that whatever many callers do at once, every answer is one that a plain sequential Headroom could have given at one moment between the call and its return.
//
// A history is what three to five clients ask of one subject at once: deductions, holds, settlements, releases, refunds, grants, changes of plan and looks at the use, with few ids, so that they repeat each other, and a small limit, so that
// much is refused. In half of the histories the week turns in their midst, and short holds and grants expire with it. Requests and answers are lost, and callers give up, by their deadline or before. The histories are judged by
// github.com/anishathalye/porcupine against the model in model_test.go, which shares no code with the engine.
//
// What the model is told, and why:
//
//   - Of an operation whose outcome is unknown, and of each write whose answer was lost, the effect may come at any moment from the call on, or never. Such a request is an operation of its own in the history, without an answer.
//     The call that sent it may then find what it did itself, as a repeat.
//   - After any other failure nothing was decided: the operation is left out, and if it had an effect, what others see does not fit.
//     No call may end so that no fault has struck, not in contention either: a store that decides nothing now and then would else pass.
//   - While an operation runs the clock may turn. It may read either time at each of its looks: when it decides, when it finds whether a hold has expired, and when it shows how the limits stand.
//
// HEADROOM_PROOF_SEED=N makes the same histories be asked. How the goroutines of the clients interleave no seed repeats: a failure prints the whole history, and writes a page that shows it.
package linear
