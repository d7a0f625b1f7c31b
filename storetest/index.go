package storetest

import "slices"

// behaviour is every rule that Run tests after the contract, in the order in which it tests them.
// crowds, at the end of indexverbs.go, are those that Concurrent tests.
var behaviour = slices.Concat(
	// A deduction: this file.
	admission, once, horizons, windows, plans, names, failures, logs,
	// The rest: indexverbs.go.
	holds, refunds, grants, limits, carrying, notices, within, debts, interrupted, forgets,
	// Several meters: indexmeters.go.
	severalMeters,
)

// admission: who is admitted and who is refused. The tests are in admission.go.
var admission = []rule{
	{"rule 1", "never over", neverOver,
		"the one promise that a limit makes"},
	{"rule 1", "a decision takes one request to the store, and two in a new window", requests,
		"a store whose guard fails for no reason makes the engine ask again, which costs time and money"},
	{"rule 1", "a charge under the policy record goes past the limit and says so", recorded,
		"finished work is counted though nothing was left, and nobody takes it for work that fitted"},
	{"rule 2", "never refused wrongly", neverRefusedWrongly,
		"a new window brings all units back, and whoever comes first may use all of them"},
	{"rule 2", "the loser of the race into a new week tries again", loserTriesAgain,
		"two writers open a week at once and one of them is late; there is room for both"},
	{"rule 2", "the loser of the race to repair a window tries again", loserOfRepairTriesAgain,
		"two writers bring a window of the future back at once; the second must find what the first did"},
	{"rule 1", "never over while a window is brought back", neverOverInRepair,
		"while one writer repairs a window another still adds to it, and its units count too"},
	{"rule 3", "the first deduction of a window obeys the limit", firstObeysTheLimit,
		"a window that opens with a charge has a limit already"},
	{"rule 4", "a refusal changes nothing", refusalChangesNothing,
		"a caller who is refused may ask for less, and must find all as it was"},
	{"case 9", "an item of last week at its limit", lastWeekAtItsLimit,
		"what was used up last week is no reason to refuse this week"},
	{"case 10", "a cost above the limit as a subject's very first", neverFits,
		"nothing must be stored of a request that never fits, for a smaller one comes next"},
	{"case 11", "a smaller cost after a refused one", smallerAfterRefused,
		"the refused one must not have taken the last units with it"},
	{"case 12", "a refusal by one limit burns no other", refusalBurnsNoOther,
		"what one limit refuses was not used, so no other limit may count it"},
	{"case 13", "odd costs block no later call", oddCosts,
		"zero, negative and the greatest numbers must leave the subject usable"},
	{"case 34", "counts past 2^53 are exact", exactCounts,
		"a count that passes through a floating-point number loses units"},
	{"case 49", "a charge beyond int64 leaves the subject usable", beyondInt64,
		"a sum that wraps round would turn a used-up subject into one with everything left"},
}

// once: an operation is charged at most once. The tests are in once.go.
var once = []rule{
	{"rule 5", "a repeat is answered with the first decision", repeatIsReplay,
		"a caller repeats because it does not know what came of the first call"},
	{"rule 5", "an id stands for one piece of work", idStandsForOneWork,
		"the same id with another cost is a mistake of the caller's, and must not pass as a repeat"},
	{"rule 5", "a refusal is not remembered", refusalIsNotRemembered,
		"what was refused may be asked for again when there is room"},
	{"rule 5", "a redelivery after the week has turned", redeliveryAfterTheTurn,
		"a message that comes again on Monday was charged on Sunday"},
	{"rule 5", "ids are remembered for one horizon at least", rememberedForTheHorizon,
		"queues deliver again for days, and so long an id must be known"},
	{"rule 5", "ids are forgotten after two horizons", forgottenAfterTwoHorizons,
		"what is remembered has to leave some day, or an item grows for ever"},
	{"rule 5", "the horizon holds whatever the length of the window", horizonsOfAnyLength,
		"ids age by an epoch of their own, not by the windows"},
	{"rule 5", "the horizon may be raised", horizonRaised,
		"ids that were written under a short horizon age by the long one from then on"},
	{"rule 5", "an operation older than the horizon is an error", tooOld,
		"whether it was charged nobody knows any more, so it must not be charged now"},
	{"rule 5", "ids are of one subject and meter", idsOfOneSubject,
		"two customers may choose the same id, and each has to pay"},
	{"rule 5", "hundreds of ids in one week", hundredsOfIDs,
		"more ids than fit beside the count have to be remembered just as well"},
	{"rule 5", "hundreds of ids in two generations", idsInTwoGenerations,
		"ids that were moved aside age like the others"},
	{"rule 5", "an id is filed by the store's time, though the host's clock lags", filedByTheStore,
		"an id that is filed under an older generation is forgotten too early"},
	{"rule 5", "another delivery wins in between", otherDeliveryWins,
		"two workers may get one message at once, and only one of them charges"},
	{"case 5", "the write is applied, the answer lost, and sent again", answerLost,
		"a client library repeats a request that it had no answer to"},
	{"case 44", "the message comes again after the charge", messageComesAgain,
		"a job that was charged must not be refused because its own charge used the units up"},
	{"case 47", "a repeat after the plan was lowered below its cost", repeatAfterPlanLowered,
		"the first decision stands, whatever the plan is today"},
}

// horizons: for how long ids are remembered. The tests are in horizons.go.
var horizons = []rule{
	{"case 54", "ids live as long as the window they were charged in", asLongAsTheWindow,
		"within one month nothing may be charged twice, and a charge can still be refunded"},
	{"case 55", "the longest horizon is bounded and nothing is charged again in it", longestHorizon,
		"an operator who asks for ever must get a clear answer, and no sum of times may overflow"},
	{"rule 5", "the horizon is a meter's own", horizonOfAMeter,
		"a yearly limit on one meter must not fill the store with the ids of another"},
	{"rule 5", "ids live as long as was promised when the horizon is raised", horizonRaisedLive,
		"a store lives on while its configuration changes"},
	{"rule 5", "ids live as long as was promised when the horizon is lowered", horizonLoweredLive,
		"what was promised when an id was charged holds, though the promise of today is shorter"},
	{"rule 5", "a refund of what began before the horizon is too old", refundTooOld,
		"whether the operation was charged nobody knows any more"},
	{"rule 5", "a charge without an id, where the meter permits that", withoutID,
		"a gateway that has no ids is counted all the same, and told that nothing is remembered"},
	{"rule 5", "a charge without an id that may have been made is not sent again", lostWithoutID,
		"no id keeps a second attempt from charging again"},
}

// windows: how time passes. The tests are in windows.go and clocks.go.
var windows = []rule{
	{"rule 6", "windows never go back", neverGoBack,
		"a late writer that turned a window back would give its units away twice"},
	{"rule 6", "a host that is behind opens no window", hostBehindOpensNone,
		"the store's time opens windows, and a host's clock only guesses"},
	{"rule 7", "a window of the future is brought back", futureIsBroughtBack,
		"one clock that was a year ahead must not lock a subject out for a year"},
	{"rule 7", "several windows of the future are brought back together", severalAreBroughtBack,
		"a clock may have been wrong for weeks, and all that was charged meanwhile counts"},
	{"rule 7", "more windows of the future than one write takes are brought back", manyAreBroughtBack,
		"a store has a greatest size of a write, and a repair must not need more"},
	{"rule 7", "the present window's total may be far back in history", totalFarBack,
		"the repair must find the total though the store keeps it elsewhere by now"},
	{"rule 7", "five minutes are no fault", fiveMinutes,
		"clocks differ a little, and a window that is barely ahead is left alone"},
	{"rule 7", "ids of a window that was brought back are remembered", idsOfTheFuture,
		"what was charged under a wrong clock was charged, and its repeat is a repeat"},
	{"rule 7", "one wrong reading forgets no id that is not due", wrongReadingForgetsNone,
		"a single reading far ahead would age the ids once too early"},
	{"rule 7", "a clock that falls behind is an error until it is accepted", distrustedClock,
		"a store that knows only the host's clock cannot tell which of two readings was wrong"},
	{"rule 8", "the last 52 totals are kept", lastTotals,
		"a year of weeks stays readable, and no more than that"},
	{"rule 8", "rollover is part of the write", rollover,
		"no job runs on Monday; whoever writes first turns the week"},
	{"case 19", "a used-up subject asks every second over the boundary", everySecond,
		"the first second of the new window admits, and the refused ones before it wrote nothing"},
	{"case 20", "clocks of two writers differ by 2 s around Monday", clocksDiffer,
		"the week turns once, and no week gets more than the limit"},
	{"case 21", "one clock a year ahead, another three days behind", badClocks,
		"neither may give a second allowance or lock anybody out"},
	{"case 22", "Sunday 23:59:59 then Monday 00:00:01", sundayMonday,
		"two seconds apart, and in two windows"},
	{"case 23", "weeks around the turn of a year", turnsOfYears,
		"the first days of January may belong to the last week of the old year"},
	{"case 24", "hosts in New York and Tokyo", hostZones,
		"where a host stands must not move a window"},
}

// plans: what a change of plan does. The tests are in plans.go.
var plans = []rule{
	{"rule 12", "a change of plan takes effect at the next decision", planTakesEffect,
		"who pays for more may use more at once, and what was used stays used"},
	{"rule 12", "a changed limit takes effect at the next decision", limitTakesEffect,
		"an operator who changes a limit need not wait for the window to end"},
	{"rule 12", "a plan is the subject's for all meters", planOfAllMeters,
		"nobody is on two plans"},
	{"rule 12", "usage is shown under the caller's plan, unless one is stored", usageUnderPlan,
		"what a page shows and what a decision goes by must be the same plan"},
	{"rule 12", "a deduction that assumed another plan decides again", assumedAnotherPlan,
		"the engine guesses a plan; a wrong guess must fail its guard and nothing else"},
	{"rule 12", "a plan that is removed between a read and its write", removedInBetween,
		"the write must find out, or a former customer goes on spending"},
	{"rule 12", "a plan that the catalog does not know is an error", storedPlanUnknown,
		"there is no limit to decide by, and a guess would be wrong for somebody"},
	{"rule 12", "where the plan is unknown, the default decides if the caller asks for that", anyPlan,
		"finished work has to be charged, whatever became of its user's plan"},
	{"rule 12", "a plan that was seen is a guess, and what is stored decides", seenPlan,
		"a hint saves a request and must never give what the stored plan does not"},
	{"case 82", "a limit that is added counts from then on", limitAdded,
		"what was used before it was there cannot be known"},
	{"case 42", "a plan lowered between a caller's read and its deduction", loweredInBetween,
		"the plan that is stored decides, not the one that the caller saw"},
}

// names: what a name, a cost and a time may be. The tests are in names.go.
var names = []rule{
	{"rule 14", "bad input is an error before any write", badInput,
		"a caller's mistake must not reach the store"},
	{"rule 14", "cost 0 is allowed even at the limit", nothingAtTheLimit,
		"free work needs no units, and its id is remembered like any other"},
	{"rule 15", "subjects of every script stay apart", subjectsApart,
		"two subjects that become one key share an allowance"},
	{"rule 15", "meters stay apart", metersApart,
		"two meters that become one key are limited by each other"},
	{"rule 15", "ids of every script stay apart", idsApart,
		"two ids that become one are charged once for two pieces of work"},
	{"rule 15", "ids of every script stay apart among hundreds of others", idsApartAmongMany,
		"also where ids are moved aside and named in another way"},
	{"rule 15", "the longest names", longestNames,
		"a name that is cut or hashed too short meets another"},
	{"case 33", "subject a with meter b_c, and subject a_b with meter c", meterSubjectBorder,
		"a delimiter that may occur in a name separates nothing"},
}

// failures: what a caller learns when the store fails. The tests are in failures.go.
var failures = []rule{
	{"rule 16", "a store that fails before the write gives its error", failsBefore,
		"a failure is never a yes and never a no, and the caller needs its cause"},
	{"rule 16", "a lost answer is an unknown outcome and a repeat charges once", failsAfter,
		"the caller is told to repeat the same id, and must be able to rely on it"},
	{"rule 16", "a failure after the write charges once too, whatever it is called", failsAfterWithAnyCode,
		"even where a store names the failure wrongly, the id keeps the charge single"},
	{"rule 16", "a preflight can be told to let through", letThrough,
		"a look before the work may prefer to let work begin; a charge may not"},
	{"rule 16", "a call that is cancelled decides nothing", cancelled,
		"a caller who gave up was neither admitted nor refused"},
	{"rule 16", "a failed change of plan says so", setPlanFails,
		"an operator must not believe in a plan that is not stored"},
}

// logs: what a replayed log may expect. The tests are in logs.go.
var logs = []rule{
	{"case 39", "a log is replayed from its start", logReplayed,
		"a replay that was killed half-way is begun again, and the sums must come out the same"},
	{"rule 6", "a request that skips closed windows is charged to no other", skipsClosed,
		"a row of a closed week is late, and not a charge to this week"},
}
