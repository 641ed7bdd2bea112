package serve

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

//go:embed status.html
var statusPage string

// style is the style sheet of the pages.
//
//go:embed style.css
var style string

//go:embed openapi.json
var openAPI []byte

// page is the content of the status page.
type page struct {
	Now                        time.Time
	Version                    string
	Uptime                     time.Duration
	Remember                   string // how long decisions are cached
	Policy, PolicyDigest       string
	TrustRoot                  string
	RootAge                    string // since it was read; "" if unknown
	RootDate                   string // date of the root, if known
	Lab                        bool
	Since                      time.Time
	Failed                     string
	FailedAt                   time.Time
	Draining                   bool
	Accepted, Refused, Unknown int64
	Cached, All                int64
	HitRatio                   string
	Reasons, TurnedAway        []reason
	Last                       []line
	Head                       api.Head
	Lost                       string // why the record could not be written
	Features                   *featuresPage
}

// reason is a code and its count.
type reason struct {
	Code  verdict.Code
	Count int64
	Fix   string
}

// status answers GET /statusz with a page for people.
func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	p := s.page()
	head, _, lost := s.records.record.tell(r.Context())
	if p.Head = head; lost != nil {
		p.Lost = lost.Error()
	}
	s.show(w, "status", p)
}

// decision answers GET /statusz/decision/ID with the findings of a decision.
func (s *Server) decision(w http.ResponseWriter, r *http.Request) {
	last := s.page().Last
	i := slices.IndexFunc(last, func(l line) bool { return l.ID == r.PathValue("id") })
	if i < 0 {
		http.Error(w, fmt.Sprintf("no such decision: the page keeps the last %d, and the record has them all; see waybill gate audit", kept), http.StatusNotFound)
		return
	}
	s.show(w, "decision", last[i])
}

// show writes a page. It loads nothing, and runs no script.
func (s *Server) show(w http.ResponseWriter, name string, content any) {
	if !s.flags.enabled(known.StatusPage) {
		http.Error(w, "no status page: the feature "+known.StatusPage+" is off; see /flagz for who set it", http.StatusNotFound)
		return
	}
	t, err := template.New("").Funcs(template.FuncMap{
		"style": func() template.CSS { return template.CSS(style) }, "safe": render.Safe,
	}).Parse(statusPage)
	var out bytes.Buffer
	if err == nil {
		err = t.ExecuteTemplate(&out, name, content)
	}
	if err != nil {
		http.Error(w, "the status page cannot be rendered", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	_, _ = w.Write(out.Bytes())
}

func (s *Server) page() page {
	basis, now := s.basis.Load(), s.world.Clock()
	p := page{
		Now: now.UTC(), Version: s.world.Version, Uptime: now.Sub(s.started).Truncate(time.Second), Remember: strings.Replace(s.limits.Remember.String(), "m0s", "m", 1), Policy: basis.Policy.Name(), PolicyDigest: basis.Policy.Digest().String(),
		TrustRoot: basis.Verifier.Root().Digest().String(), Lab: basis.Verifier.Root().IsLab(),
		Since: basis.since.UTC(), Draining: s.draining.Load(), FailedAt: basis.failedAt.UTC(),
	}
	if date := basis.Verifier.Root().Date(); !date.IsZero() {
		p.RootDate = fmt.Sprintf("%s, %s ago", date.Format(time.DateOnly), plural.Of(int(now.Sub(date).Hours()/24), "day"))
	}
	if !basis.RootFrom.IsZero() {
		p.RootAge = now.Sub(basis.RootFrom).Round(time.Second).String()
	}
	p.Features = s.features.page(basis)
	if basis.failed != nil {
		p.Failed = basis.failed.Error()
	}
	t := &s.records.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	for o, n := range t.outcomes {
		p.All += n
		switch o {
		case verdict.Accepted:
			p.Accepted += n
		case verdict.Refused:
			p.Refused += n
		default:
			p.Unknown += n
		}
	}
	p.Cached, p.Reasons, p.TurnedAway = t.hits, byCount(t.reasons), byCount(t.away)
	p.HitRatio = ratio(p.Cached, p.All)
	for i, away := range p.TurnedAway {
		switch away.Code { // the act is for a caller of the service, not for a user of a command
		case verdict.Usage:
			p.TurnedAway[i].Fix = seeDocument
		case verdict.Busy:
			p.TurnedAway[i].Fix = askLater
		}
	}
	p.Last = slices.Clone(t.last)
	slices.Reverse(p.Last)
	for i := range p.Last {
		p.Last[i].Took = p.Last[i].Took.Round(10 * time.Microsecond)
	}
	return p
}

// byCount returns the codes, the most frequent first.
func byCount(counts map[verdict.Code]int64) (all []reason) {
	all = slice.Map(slices.Sorted(maps.Keys(counts)), func(c verdict.Code) reason { return reason{c, counts[c], c.Fix()} })
	slices.SortStableFunc(all, func(a, b reason) int { return cmp.Compare(b.Count, a.Count) })
	return all
}

// describe answers GET /openapi.json.
func describe(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(openAPI)
}
