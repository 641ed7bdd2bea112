package simulate

import "math/rand/v2"

// Fault is what happens to a request.
type Fault string

// The faults.
const (
	Refused   Fault = "refused"   // no connection
	Lost      Fault = "lost"      // the request, before the server had it
	Unheard   Fault = "unheard"   // the answer; the server acted
	Silent    Fault = "silent"    // no answer before the deadline; the server may have acted
	Slow      Fault = "slow"      // seconds
	Twice     Fault = "twice"     // the server got it twice, and the second answer counts
	Later     Fault = "later"     // the server got it again after the answer
	Busy      Fault = "busy"      // 429 or 503 with Retry-After
	Failing   Fault = "failing"   // 500, 502 or 504; the server may have acted
	Truncated Fault = "truncated" // the body of the answer breaks off
	Expired   Fault = "expired"   // 401: the server no longer knows the token
	Forgotten Fault = "forgotten" // the server says that it acted, and did not
	Suspended Fault = "suspended" // the process stops for minutes before it sends the request

	PowerCut Fault = "power cut" // of no request: the disk loses what was not synced
)

// kinds are all faults.
func kinds() []Fault {
	return []Fault{Refused, Lost, Unheard, Silent, Slow, Twice, Later, Busy, Failing, Truncated, Expired, Forgotten, Suspended}
}

// Rates are how often requests fail, of 10,000.
type Rates map[Fault]int

// drawRates draws a world that is calm, or rough, or has faults of some kinds only.
func drawRates(dice *rand.Rand) Rates {
	r := Rates{}
	most := []int{0, 50, 200, 600}[dice.IntN(4)]
	for _, kind := range kinds() {
		if n := dice.IntN(most + 1); dice.IntN(3) > 0 {
			r[kind] = n
		}
	}
	r[Forgotten] /= 8 // a server that lies is rare, and each of its lies takes all patience
	r[Silent] /= 4    // as do these
	if dice.IntN(8) > 0 {
		r[Suspended] /= 8
	}
	return r
}

// draw draws the fate of a request; "" is none.
func (r Rates) draw(dice *rand.Rand) Fault {
	n := dice.IntN(10_000)
	for _, kind := range kinds() {
		if n -= r[kind]; n < 0 {
			return kind
		}
	}
	return ""
}
