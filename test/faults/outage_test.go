package faults_test

import (
	"os"
	"testing"
	"time"

	"github.com/waybill-release/waybill/test/faults"
)

// outageVariable is how long a service is away where people want to watch it.
const outageVariable = "WAYBILL_OUTAGE"

// TestOutageIsRiddenOut: a service of signing goes away and comes back while
// files are signed. Whoever signs is told what is waited for, how long it has
// lasted and when it ends; then everything is signed, and is in the log once.
// Outages of an hour are played by test/signing, with a clock of its own.
func TestOutageIsRiddenOut(t *testing.T) {
	long, err := time.ParseDuration(os.Getenv(outageVariable))
	if err != nil {
		long = 5 * time.Second // which is more than the transport bears by itself
	}
	for name, of := range map[string]func(*night) *faults.Proxy{
		"certificates": func(n *night) *faults.Proxy { return n.fulcio },
		"timestamps":   func(n *night) *faults.Proxy { return n.tsa },
		"log":          func(n *night) *faults.Proxy { return n.rekor },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNight(t)
			state, before := n.unsigned(), entries(t)
			of(n).Spoil(all("", "", faults.Status(503))...)
			back := time.AfterFunc(long, of(n).Heal)
			defer back.Stop()
			began := time.Now()
			r := n.sign(state, "--patience", "1h")
			want(t, r, 0, "waiting for the", "giving up in", "is reachable again, after")
			if added, wanted := entries(t)-before, signatures(t, state); added != wanted {
				t.Errorf("the log has %d new entries for %d signatures", added, wanted)
			}
			t.Logf("away for %s, asked %d times in that time, done after %s:\n%s", long, of(n).Spoiled(), time.Since(began).Round(time.Second), r.Stderr)
		})
	}
}
