// Package headroom decides whether a subject may spend units of a metered thing in the present calendar window, and records what was spent: exactly once and never past the limit, whoever else is writing.
//
// An Engine joins a Store (packages embedded, dynamostore and memstore) with a Catalog of plans and prices. Preflight looks before the work, Deduct charges after it; Hold reserves before and Settle charges after.
//
// The path of a request is the order of the files, and each refers only to those before it: check.go, request.go and decision.go are what is asked and answered; window.go, period.go and zone.go cut time;
// price.go, plan.go, horizon.go and catalog.go hold the configuration; state.go, record.go, debt.go and generation.go are what a store keeps; store.go, change.go, guard.go and apply.go are the contract of a store;
// standing.go, spread.go, back.go, rules.go, answer.go and clear.go decide, without side effects, and charge.go, hold.go, refund.go and grant.go decide one verb each; engine.go, attempt.go and debts.go join
// these with a store, verbs.go, within.go, usage.go and forget.go are what an engine can be asked.
package headroom
