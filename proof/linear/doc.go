// Package linear checks that the decisions of real stores are linearizable. Whatever many callers
// do at the same time, each answer must be one that a plain sequential Headroom could have given at
// some moment between the call and its return.
//
// A history is what three to five clients ask about one subject at the same time. They deduct,
// hold, settle, release, refund, grant, change the plan and look. There are few ids, so that the
// clients repeat one another, and the limit is small, so that much is refused. In half of the
// histories the week turns in the middle, and short holds and grants expire with it. Requests and
// answers are lost, and callers give up, at their deadline or before. The histories are judged by
// github.com/anishathalye/porcupine against the model in model_test.go, which shares no code with
// the engine.
//
// The model is told the following, and here is why:
//
//   - If the outcome of an operation is unknown, or the answer to a write was lost, the effect may
//     come at any moment after the call, or never. Such a write is an operation of its own in the
//     history, without an answer. The call that sent it may find it later and answer with a replay.
//   - After any other failure nothing was decided, so the operation is left out. If it had an
//     effect all the same, the answers of others do not fit.
//   - Every failure must be explained by a fault that struck the call, contention too. Otherwise a
//     store that now and then decides nothing would pass.
//   - The clock may turn during an operation. The operation may read the earlier or the later time
//     each time it looks: when it decides, when it checks which holds have expired, and when it
//     shows how the limits stand.
//
// HEADROOM_PROOF_SEED=N asks the same histories again. No seed repeats how the clients' goroutines
// interleave. That is why a failure prints the whole history, and writes a page that shows it.
package linear
