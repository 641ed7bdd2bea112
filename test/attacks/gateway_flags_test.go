package attacks

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/componentbase"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
)

// page puts the feature of the status page into the site, or changes what is
// wanted of it.
func (s *switchedGate) page(want feature.State) {
	s.t.Helper()
	k := feature.Key{Namespace: feature.CoreNamespace, Name: known.StatusPage}
	f, err := s.yard.site.Features.Get(s.t.Context(), k)
	if err != nil {
		f = must[feature.Feature](s.t)(feature.Announce(k, must2(known.Registry().Definition(k)), known.Newest()))
		f.Spec.Dynamic = true
		f = must[feature.Feature](s.t)(s.yard.site.Features.Create(s.t.Context(), f))
	}
	f.Spec.Desired = want
	must[feature.Feature](s.t)(s.yard.site.Features.Update(s.t.Context(), f))
	accepted(s.t, s.server.Follow(s.t.Context()))
}

// TestGatewayStatusPage: the page goes and comes while the service runs, as the
// store wants it; /flagz says by whom.
func TestGatewayStatusPage(t *testing.T) {
	s := openSwitched(t)
	for _, row := range []struct {
		want   feature.State
		status int
		flag   string
	}{
		{"", 200, `StatusPage +beta +true +false +store`},
		{feature.Off, 404, `StatusPage +beta +false +false +store`},
		{feature.On, 200, `StatusPage +beta +true +true +store`},
	} {
		s.page(row.want)
		if _, flags := s.admin("/flagz"); !regexp.MustCompile(row.flag).MatchString(flags) {
			t.Errorf("%s: want %s:\n%s", row.want, row.flag, flags)
		}
		if status, said := s.admin("/statusz"); status != row.status || status == 404 && (!strings.Contains(said, "StatusPage is off") || strings.Count(said, "\n") != 1) {
			t.Errorf("%s: %d %s", row.want, status, said)
		}
		if status, _ := s.admin("/metrics"); status != 200 {
			t.Errorf("%s: the metrics are gone, too: %d", row.want, status)
		}
	}
	// What was set by a flag stays.
	flagged := openSwitched(t, func(s *switchedGate) { s.gate = ourGates(s.yard.t, "StatusPage=true") })
	flagged.page(feature.Off)
	if status, _ := flagged.admin("/statusz"); status != 200 {
		t.Errorf("a flag is overruled by the store: %d", status)
	}
}

// ourGates are the gates of the program, as flags set them.
func ourGates(t *testing.T, set string) *componentbase.Gate {
	t.Helper()
	g := must[*componentbase.Gate](t)(componentbase.At(known.Newest().Major(), known.Newest().Minor()))
	accepted(t, componentbase.Add(g, known.Registry(), feature.CoreNamespace))
	if set != "" {
		accepted(t, g.Set(set))
	}
	return g
}

// TestGatewayFlags: /flagz lists the features of the program, as text and as
// JSON, with who set each, and callers do not reach it; metrics have the names
// of those features, and no other label.
func TestGatewayFlags(t *testing.T) {
	s := openSwitched(t)
	s.may(s.image, toScope)
	_, text := s.admin("/flagz")
	if !regexp.MustCompile(`(?m)^RequireProvenance +beta +true +true +transition 2$`).MatchString(text) || !regexp.MustCompile(`(?m)^RequireSignoff +alpha +false +false +default$`).MatchString(text) {
		t.Errorf("what was asked, or set by whom, is missing:\n%s", text)
	}
	_, raw := s.admin("/flagz", "application/json")
	var said struct {
		Schema string
		Flags  []struct {
			Name, Stage, Source string
			Enabled, Checked    bool
		}
	}
	if err := json.Unmarshal([]byte(raw), &said); err != nil || said.Schema != "waybill/flags/v1" || len(said.Flags) != len(known.Registry().Keys()) {
		t.Errorf("%v: %s", err, raw)
	}
	if resp, err := http.Get("http://" + s.host + "/flagz"); err != nil || resp.StatusCode != http.StatusNotFound {
		t.Errorf("callers reach it: %v", err)
	}
	var names, stages []string
	for _, k := range known.Registry().Keys() {
		names = append(names, k.Name)
	}
	stages = []string{"alpha", "beta", "ga", "deprecated"}
	states := []string{"Off", "TurningOn", "On", "TurningOff"}
	series := func() (n int) {
		_, metrics := s.admin("/metrics")
		for _, m := range regexp.MustCompile(`(?m)^waybill_feature_(enabled|state)\{name="([^"]*)",(stage|state)="([^"]*)"\} [01]$`).FindAllStringSubmatch(metrics, -1) {
			second := map[string][]string{"enabled": stages, "state": states}[m[1]]
			if !slices.Contains(names, m[2]) || !slices.Contains(second, m[4]) {
				t.Errorf("a label nobody knows: %s", m[0])
			}
			n++
		}
		if all := strings.Count(metrics, "\nwaybill_feature_"); n != all {
			t.Errorf("%d of %d lines are bounded:\n%s", n, all, metrics)
		}
		return n
	}
	before := series()
	stranger := must[feature.Feature](t)(feature.Announce(feature.Key{Namespace: "example", Name: "RequireWick"}, must2(known.Registry().Definition(provenanceKey)), known.Newest()))
	must[feature.Feature](t)(s.yard.site.Features.Create(t.Context(), stranger))
	accepted(t, s.server.Follow(t.Context()))
	if now := series(); now != before || before != len(names)+len(states) {
		t.Errorf("there were %d series, and are %d", before, now)
	}
	if _, page := s.admin("/statusz"); !strings.Contains(page, "example/RequireWick") {
		t.Errorf("the page leaves out a feature of somebody else:\n%s", page)
	}
}

// TestGatewayReports: the service reports as one place what it found, at once
// when somebody waits for it, and what it does not go by it never says to be on.
func TestGatewayReports(t *testing.T) {
	s := openSwitched(t, func(s *switchedGate) {
		s.gate = ourGates(s.yard.t, "")
		s.features.Identity, s.limits.Follow = "gate", 10*time.Millisecond
		accepted(s.yard.t, s.gate.InitReporter(componentbase.Reporter{Store: s.yard.site.Features, Namespace: feature.CoreNamespace, Identity: "gate", Version: known.Newest()}))
		signoff := feature.Key{Namespace: feature.CoreNamespace, Name: known.RequireSignoff}
		must[feature.Feature](s.yard.t)(s.yard.site.Features.Create(s.yard.t.Context(), must[feature.Feature](s.yard.t)(feature.Announce(signoff, must2(known.Registry().Definition(signoff)), known.Newest()))))
	})
	said := func(name string, checked, value bool) bool {
		f := must[feature.Feature](t)(s.yard.site.Features.Get(t.Context(), feature.Key{Namespace: feature.CoreNamespace, Name: name}))
		return slices.ContainsFunc(f.Status.Uses, func(u feature.Use) bool {
			return u.Identity == "gate" && u.Version == known.Newest().String() && u.Checked == checked && u.Value == value
		})
	}
	until := func(what string, done func() bool) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("it was not reported: %s\n%s", what, s.log.String())
			}
		}
	}
	until("that it is on", func() bool { return said(known.RequireProvenance, false, true) })
	until("what the policy does not name", func() bool { return said(known.RequireSignoff, false, false) })
	s.may(s.image, toScope)
	until("that somebody asked", func() bool { return said(known.RequireProvenance, true, true) })
	s.step(feature.Off, feature.TurningOff, inScope) // which clears the uses
	until("that it is on its way to off", func() bool {
		return said(known.RequireProvenance, false, false) || said(known.RequireProvenance, true, false)
	})
	if said(known.RequireSignoff, false, true) || said(known.RequireSignoff, true, true) {
		t.Error("what the policy does not name is said to be on")
	}
}
