// Package interleave holds a model checker of the DynamoDB protocol: its tests run every interleaving of small worlds.
//
// A world is up to three clients, each of which is a process with an engine, a store and an SDK client of its own and runs a few operations; the times that the engine's clock may step to at any moment;
// and the faults that may happen. What runs is the production code: a client's requests end in a round tripper of the checker's, which answers from a recording, and stops the client where the recording ends.
// So a client is a function from the answers that it has had to the request that it makes next. The checker calls it once for each list of answers and keeps what it said.
//
// The scheduler then goes through all that can happen next: one client's request reaches the engine (internal/memdynamo) and its answer the client; the request or the answer is lost; the request is on its way and arrives later; the process ends before or after;
// a batch is written row by row; the clock steps. Two schedules that lead to the same tables, and to clients that have had the same answers, go on as one. The search is breadth first, so that the schedule that is printed for a violation is a shortest one.
//
// The invariants, in invariants_test.go, are stated on the raw items and on the clients' answers, by code of their own. guards_test.go turns the checker on itself: it lists the terms of the conditions that production writes.
// For each guard for which a world exists, an engine that takes it for true, alone or with others that would do in its place, must break that world; the rest have a reason written.
package interleave
