// Package interleave holds a model checker for the DynamoDB protocol. Its tests run every
// interleaving of small worlds.
//
// A world has up to three clients, the times that the engine's clock may step to at any moment, and
// the faults that may happen. Each client is a process with an engine, a store and an SDK client of
// its own, and runs a few operations. The code that runs is the production code. A client's
// requests end in a round tripper of the checker's. It answers from a recording, and stops the
// client where the recording ends. So a client is a function: from the answers that it has had to
// the request that it makes next. The checker calls that function once for each list of answers,
// and keeps what it said.
//
// The scheduler goes through everything that can happen next:
//
//   - A client's request reaches the engine (internal/memdynamo), and its answer the client.
//   - The request is lost, or its answer.
//   - The request is delayed, and arrives later.
//   - The process ends, before the request is done or after it.
//   - A row of a batch is written.
//   - The clock steps.
//
// Two schedules go on as one if they lead to the same tables, and to clients that have had the same
// answers. The search is breadth first, so the schedule printed for a violation is one of the
// shortest.
//
// The invariants, in invariants_test.go, speak about the raw items and the clients' answers. They
// have code of their own for that.
//
// guards_test.go turns the checker on itself. It lists the terms of the conditions that production
// writes. An engine takes one of them for true, alone or together with others that would do in its
// place, and then a world must break. Where no world does, the list names a test of dynamostore
// that notices, or gives the reason why nothing needs to.
package interleave
