package doctor

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// How much the clocks may differ before a warning, and before an error: the
// gate refuses the same difference.
const (
	clockWarn = 30 * time.Second
	clockBad  = 5 * time.Minute
)

// maxAnswer limits how much of an answer is read.
const maxAnswer = 1 << 20

// World is how services are reached, and this machine's clock.
type World struct {
	Transport http.RoundTripper
	Clock     func() time.Time
}

// Service is an address that must answer.
type Service struct {
	Name    string
	Address string
	// Whole means that the answer itself must be good. For other services any
	// answer will do, because it has a date.
	Whole bool
}

// Signing are the services that a signature needs, each with an address that
// can be read without adding to a log.
func Signing(s sign.Services) []Service {
	at := func(base, path string) string { return strings.TrimSuffix(base, "/") + path }
	list := []Service{{Name: "certificate authority", Address: at(s.Fulcio, "/api/v2/trustBundle"), Whole: true}}
	for _, log := range s.Logs {
		list = append(list, Service{Name: "transparency log", Address: at(log, "/api/v2/checkpoint"), Whole: true})
	}
	for _, tsa := range s.TSAs {
		list = append(list, Service{Name: "timestamp authority", Address: at(tsa, "/certchain"), Whole: true})
	}
	return list
}

// Services contacts every service concurrently, and compares their clocks
// with this machine's.
func (w World) Services(list []Service) Ask {
	return func(ctx context.Context) []Check {
		checks, skews := make([]Check, len(list)), make([]skew, len(list))
		var all sync.WaitGroup
		for i, s := range list {
			all.Go(func() { checks[i], skews[i] = w.service(ctx, s) })
		}
		all.Wait()
		kept := checks[:0]
		for i, c := range checks {
			if list[i].Whole || c.State == Bad {
				kept = append(kept, c)
			}
		}
		return append(kept, clock(skews))
	}
}

// skew is how far this machine's clock is ahead of a service's, at least.
type skew struct {
	service string
	ahead   time.Duration
	known   bool
}

func (w World) service(ctx context.Context, s Service) (Check, skew) {
	down := func(err error) Check {
		return Fault(s.Name, &verdict.UnavailableError{Place: s.Address, Op: "contacting the " + s.Name, Err: err})
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Address, nil)
	if err != nil {
		return Fault(s.Name, verdict.Wrap(verdict.ConfigParse, s.Name, err)), skew{}
	}
	before := w.Clock()
	response, err := transport.Client(w.Transport).Do(request)
	after := w.Clock()
	if err != nil {
		return down(err), skew{}
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxAnswer)) // the content does not matter
	gap := skew{service: s.Name}
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		gap.ahead, gap.known = difference(before, after, date), true
	}
	switch {
	case response.StatusCode >= http.StatusInternalServerError:
		return down(fmt.Errorf("the service answered %q", response.Status)), gap
	case response.StatusCode != http.StatusOK:
		return Doubt(s.Name, "check the address in the signing configuration", "%s answers %q, which is not the answer of such a service", s.Address, response.Status), gap
	}
	return Fine(s.Name, "%s answers", s.Address), gap
}

// difference is how far this machine's clock is certainly ahead (negative:
// behind) of a date that was written between two of its own times. The date
// has only whole seconds.
func difference(before, after, date time.Time) time.Duration {
	if ahead := before.Sub(date.Add(time.Second)); ahead > 0 {
		return ahead
	}
	return min(after.Sub(date), 0)
}

// clock compares this machine's clock with those of all services.
func clock(skews []skew) Check {
	worst, asked := skew{}, 0
	for _, s := range skews {
		if s.known {
			asked++
		}
		if s.ahead.Abs() >= worst.ahead.Abs() && s.known {
			worst = s
		}
	}
	direction := "ahead of"
	if worst.ahead < 0 {
		direction = "behind"
	}
	says := fmt.Sprintf("this machine's clock is %s %s the %s", worst.ahead.Abs().Round(time.Second), direction, worst.service)
	switch {
	case asked == 0:
		return Doubt("clock", "compare it with another clock", "not compared: no service sent a date")
	case worst.ahead.Abs() > clockBad:
		return Fault("clock", verdict.Refuse(verdict.Clock, "clock", "%s", says))
	case worst.ahead.Abs() > clockWarn:
		return Doubt("clock", "set the clock: certificates and tokens are valid for minutes", "%s", says)
	}
	return Fine("clock", "within %s of the clocks of %s", clockWarn, plural.Of(asked, "service"))
}
