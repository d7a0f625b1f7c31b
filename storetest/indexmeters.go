package storetest

// severalMeters: requests of several meters, on stores that join them. The tests are in meters.go
// and metersheld.go.
var severalMeters = []rule{
	{"case 73", "a call is charged in all its meters or in none", allMetersOrNone,
		"a call that was refused for its tokens must not have used up a request"},
	{"meters", "a decision has a part for each meter, and shows the one that refuses", partsOfMeters,
		"a caller who is refused must learn which meter to wait for"},
	{"meters", "a repeat asks for the same meters and costs", repeatOfMeters,
		"an id stands for one piece of work, whatever it costs in whichever meter"},
	{"meters", "the id of a call is known at each of its meters", knownAtEachMeter,
		"a second request under the id, about one of the meters alone, would charge that meter twice"},
	{"meters", "the windows of several meters turn at different times", metersTurnApart,
		"a day ends in the middle of a week, and a call counts in both"},
	{"meters", "grants are drawn on in the meter that needs them", metersDrawOnGrants,
		"units of one meter are no units of another"},
	{"meters", "a preflight of several meters says what a deduction would", metersPreflight,
		"work that begins on a wrong answer is work for nothing"},
	{"meters", "many calls of one subject are remembered at each meter", manyCallsOfMeters,
		"ids leave the item of a busy subject, at each meter by itself, and a repeat must find them all the same"},
	{"meters", "a meter may forget a call earlier than another", metersForgetApart,
		"each meter has a horizon of its own; what one remembers is not charged again in the other"},
	{"meters", "bad amounts are errors before anything is written", badMeters,
		"a meter that is named twice, or unknown, is a mistake that must not become a charge"},
	{"meters", "a hold of several meters is settled at the true cost of each", metersSettled,
		"what a call costs is known after it, in each meter by itself"},
	{"meters", "a hold of several meters is released in all of them", metersReleased,
		"whoever gives a hold back must not have to remember which meters it was of"},
	{"meters", "a hold of several meters lasts longer in all of them", metersExtended,
		"a hold that ends in one meter and not in the other covers half of the work"},
	{"meters", "a hold that is over is settled as a plain deduction in each meter", metersLate,
		"late work is charged if there is room in every meter, and refused in all if not"},
	{"meters", "a refund gives a call back in all its meters", metersRefunded,
		"a call that failed must not keep a part of what it cost"},
	{"meters", "a refund may be of one meter, or of some", oneMeterRefunded,
		"a price that was wrong in one meter is corrected there"},
}

// crowdsOfMeters are what many writers do at once about several meters.
var crowdsOfMeters = []rule{
	{"meters", "many calls at once are charged in all meters or in none", callsAtOnce,
		"the one that takes the last tokens must not leave requests behind that nobody made"},
}
