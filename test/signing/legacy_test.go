package signing

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// newLegacy is a world with a log for signatures in the legacy forms.
func newLegacy(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.services = w.selected(t, lab.Signing{V1: true})
	return w
}

// legacyOrders are a statement and files, in the legacy form.
func legacyOrders(t *testing.T, n int) []sign.Order {
	t.Helper()
	list := orders(t, n)
	for i := range list {
		list[i].Legacy = true
	}
	return list
}

// TestLegacy: what is signed in the legacy form is verified as it is read back,
// stands in the log of version 1 once, and is taken up by the next run.
func TestLegacy(t *testing.T) {
	w := newLegacy(t)
	path, m := journalIn(t), w.honest()
	got, err := w.signAll(t, m, path, legacyOrders(t, 5))
	refused(t, err, "")
	if got != (sign.Tally{Made: 5, Entries: 5}) || len(w.LoggedV1()) != 5 || len(w.Logged()) != 0 || m.to("tsa") != 0 || m.to("fulcio") != 1 {
		t.Errorf("%+v, %d entries; %v", got, len(w.LoggedV1()), m.calls)
	}
	m = w.honest()
	got, err = w.signAll(t, m, path, legacyOrders(t, 5))
	refused(t, err, "")
	if got != (sign.Tally{Found: 5}) || m.all != 0 {
		t.Errorf("again: %+v, %v", got, m.calls)
	}
	bundle, e, err := w.signer(t, w.honest(), keeping(t, path)).Blob(t.Context(), file(0))
	if err != nil || e.IsZero() || len(w.Logged()) != 1 {
		t.Fatalf("a bundle of the same file: %v", err)
	}
	if _, err := legacy.Open(bundle); err == nil {
		t.Error("a bundle of version 0.3 is taken for a legacy form")
	}
}

// TestLegacyParts: the parts of a signature are read by the older readers, and
// belong together. The first row is the twin.
func TestLegacyParts(t *testing.T) {
	w := newLegacy(t)
	parts := map[int][2][]byte{}
	for n := range 2 {
		err := w.signer(t, w.honest()).Each(t.Context(), []sign.Order{{Bytes: file(n), Legacy: true}}, keepParts(t, parts, n))
		refused(t, err, "")
	}
	for name, c := range map[string]struct {
		of, signature, certificate int
		want                       verdict.Code
	}{
		"a pair":                     {0, 0, 0, ""},
		"another run's certificate":  {0, 0, 1, verdict.SignatureBad},
		"another run's signature":    {0, 1, 0, verdict.SignatureBad},
		"another file":               {1, 0, 0, verdict.SignatureBad},
		"the certificate's own text": {0, -1, 0, verdict.BundleParse},
	} {
		signature := parts[0][1]
		if c.signature >= 0 {
			signature = parts[c.signature][0]
		}
		m, err := legacy.ParseFiles(legacy.Certificate, file(c.of).SHA256, signature, parts[c.certificate][1])
		if err == nil {
			err = m.Check()
		}
		if refused(t, err, c.want); t.Failed() {
			t.Fatal(name)
		}
	}
}

func keepParts(t *testing.T, parts map[int][2][]byte, n int) func(int, []byte, verify.Evidence) error {
	t.Helper()
	return func(_ int, bundle []byte, _ verify.Evidence) error {
		m, err := legacy.Open(bundle)
		signature, certificate := m.Files()
		parts[n] = [2][]byte{signature, certificate}
		return err
	}
}

func discard(int, []byte, verify.Evidence) error { return nil }

// TestNoLegacyLog: without a log of version 1, or with a key, nobody is asked for
// anything.
func TestNoLegacyLog(t *testing.T) {
	w := newWorld(t)
	m := w.honest()
	_, err := w.signAll(t, m, journalIn(t), legacyOrders(t, 2))
	refused(t, err, "LEGACY_NEEDS_REKOR_V1")
	if m.all != 0 {
		t.Errorf("%d requests before it was refused", m.all)
	}
	refused(t, w.signer(t, m).NeedLegacy(), "LEGACY_NEEDS_REKOR_V1")
	w.services = w.selected(t, lab.Signing{V1: true})
	refused(t, w.signer(t, m).NeedLegacy(), "")
}

// TestLegacyLogLies: no answer of the log is used before it was checked. The
// first row is the twin.
func TestLegacyLogLies(t *testing.T) {
	w := newLegacy(t)
	changed := func(from, to string) func(call) (*http.Response, error) {
		return func(c call) (*http.Response, error) {
			r, err := c.pass()
			if err != nil || c.service != "rekorV1" {
				return r, err
			}
			status := r.StatusCode
			return says(status, strings.Replace(text(t, r), from, to, 1))
		}
	}
	var first string
	replay := func(c call) (*http.Response, error) {
		r, err := c.pass()
		if err != nil || c.service != "rekorV1" {
			return r, err
		}
		if first == "" {
			first = text(t, r)
			return r, nil
		}
		return says(r.StatusCode, first)
	}
	_, _, err := w.signer(t, w.meddler(replay)).Blob(t.Context(), file(7))
	refused(t, err, "")
	if err := w.signer(t, w.meddler(replay)).Each(t.Context(), []sign.Order{{Bytes: file(8), Legacy: true}}, discard); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		meddle func(call) (*http.Response, error)
		want   verdict.Code
	}{
		"honest":              {nil, ""},
		"another entry":       {replay, verdict.LogEntryUnbound},
		"another time":        {changed(`"integratedTime":1`, `"integratedTime":2`), verdict.LogPromise},
		"no promise":          {changed("signedEntryTimestamp", "unsignedEntryTimestamp"), verdict.TimeUnsigned},
		"no entry":            {answering("rekorV1", 201, "{}"), verdict.LogEntryParse},
		"a no":                {answering("rekorV1", 400, "no"), verdict.ServiceRefused},
		"away":                {answering("rekorV1", 502, ""), verdict.PlaceDown},
		"a conflict with all": {answering("rekorV1", 409, ""), verdict.ServiceRefused},
	} {
		t.Run(name, func(t *testing.T) {
			err := w.signer(t, w.meddler(c.meddle)).Each(t.Context(), []sign.Order{{Bytes: file(100 + len(name)), Legacy: true}}, discard)
			refused(t, err, c.want)
		})
	}
}

// TestLegacyLost: the log took a signature and its answer was lost; the next run
// finds it there, within the certificate's life and after. Where the log was
// away for longer, it is signed anew.
func TestLegacyLost(t *testing.T) {
	for name, later := range map[string]time.Duration{"at once": 0, "after the certificate's life": 30 * time.Minute} {
		t.Run("lost, "+name, func(t *testing.T) {
			w := newLegacy(t)
			path := journalIn(t)
			_, err := w.signAll(t, w.meddler(func(c call) (*http.Response, error) {
				if c.service == "rekorV1" {
					return cutOff(c)
				}
				return c.pass()
			}), path, legacyOrders(t, 1))
			refused(t, err, verdict.PlaceDown)
			w.ahead += later
			got, err := w.signAll(t, w.honest(), path, legacyOrders(t, 1))
			refused(t, err, "")
			if got != (sign.Tally{Finished: 1}) || len(w.LoggedV1()) != 1 {
				t.Errorf("%+v, %d entries", got, len(w.LoggedV1()))
			}
		})
		t.Run("away, "+name, func(t *testing.T) {
			w := newLegacy(t)
			path := journalIn(t)
			_, err := w.signAll(t, w.meddler(answering("rekorV1", 503, "")), path, legacyOrders(t, 1))
			refused(t, err, verdict.PlaceDown)
			w.ahead += later
			got, err := w.signAll(t, w.honest(), path, legacyOrders(t, 1))
			refused(t, err, "")
			want := sign.Tally{Finished: 1, Twice: 1, Entries: 1}
			if later > 0 {
				want = sign.Tally{Made: 1, Entries: 1}
			}
			if got != want || len(w.LoggedV1()) != 1 {
				t.Errorf("%+v, want %+v, %d entries", got, want, len(w.LoggedV1()))
			}
		})
	}
}

// TestLegacyOutage: the log is away for longer than a certificate lives; each
// signature is made anew for when it answers again, and stands there once.
func TestLegacyOutage(t *testing.T) {
	w := newLegacy(t)
	until := w.now().Add(40 * time.Minute)
	m := w.meddler(func(c call) (*http.Response, error) {
		if c.service == "rekorV1" && w.now().Before(until) {
			return says(http.StatusServiceUnavailable, "")
		}
		return c.pass()
	})
	all, keep := gather(t)
	if err := w.signer(t, m, patient, keeping(t, journalIn(t))).Each(t.Context(), legacyOrders(t, 5), keep); err != nil || len(all) != 5 {
		t.Fatalf("%d signed, %v", len(all), err)
	}
	if len(w.LoggedV1()) != 5 || !strings.Contains(w.told(), "is reachable again") {
		t.Errorf("%d entries; told: %s", len(w.LoggedV1()), w.told())
	}
}
