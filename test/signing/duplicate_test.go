package signing

import (
	"net/http"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// lost signs one file and loses the log's answer.
func (w *world) lost(t *testing.T) (journal string) {
	t.Helper()
	path := journalIn(t)
	m := w.meddler(func(c call) (*http.Response, error) {
		if c.service == "rekor" {
			return cutOff(c)
		}
		return c.pass()
	})
	if _, err := w.signAll(t, m, path, orders(t, 1)); err == nil {
		t.Fatal("signed without an answer of the log")
	}
	return path
}

// TestDuplicate: a log that has a signature already is asked for the entry,
// and believed in nothing that it answers. The first row is the twin.
func TestDuplicate(t *testing.T) {
	w := newWorld(t)
	list := []sign.Order{}
	for i := range 300 { // more than one tile
		list = append(list, sign.Order{Bytes: file(1000 + i)})
	}
	_, keep := gather(t)
	if err := w.signer(t, w.honest()).Each(t.Context(), list, keep); err != nil {
		t.Fatal(err)
	}
	changed := func(what string, change func(string) string) func(call) (*http.Response, error) {
		return func(c call) (*http.Response, error) {
			r, err := c.pass()
			if err != nil || !strings.Contains(c.request.URL.Path, what) {
				return r, err
			}
			status := r.StatusCode
			return says(status, change(text(t, r)))
		}
	}
	flipped := func(s string) string { return s[:len(s)/2] + string(s[len(s)/2]^1) + s[len(s)/2+1:] }
	shorter := func(s string) string { return s[:len(s)/2] }
	nothing := func(string) string { return "" }
	for name, c := range map[string]struct {
		meddle func(call) (*http.Response, error)
		want   verdict.Code
	}{
		"honest":                       {nil, ""},
		"hashes that are others":       {changed("/tile/0/", flipped), verdict.LogProof},
		"hashes that are missing":      {changed("/tile/0/", shorter), verdict.LogProof},
		"no entries":                   {changed("/tile/entries/", nothing), verdict.LogEntryParse},
		"entries that end too early":   {changed("/tile/entries/", shorter), verdict.LogEntryParse},
		"entries that are others":      {changed("/tile/entries/", func(s string) string { return strings.ReplaceAll(s, "0.0.2", "0.0.3") }), verdict.BundleParse},
		"no checkpoint":                {changed("/checkpoint", nothing), verdict.CheckpointSig},
		"a checkpoint of another tree": {changed("/checkpoint", func(s string) string { return strings.Replace(s, "\n3", "\n2", 1) }), verdict.PlaceDown},
		"a checkpoint by nobody":       {changed("/checkpoint", func(s string) string { return strings.ReplaceAll(s, "rekor", "other") }), verdict.CheckpointOrigin},
		"a checkpoint of another log":  {changed("/checkpoint", func(s string) string { return strings.Replace(s, "rekor", "other", 1) }), verdict.LogUnknown},
		"a checkpoint of no size":      {changed("/checkpoint", func(s string) string { return strings.Replace(s, "\n3", "\nx", 1) }), verdict.CheckpointSig},
		"no tiles":                     {answeringPath("/tile/", http.StatusNotFound), verdict.ServiceRefused},
		"tiles that are away":          {answeringPath("/tile/", http.StatusBadGateway), verdict.PlaceDown},
	} {
		t.Run(name, func(t *testing.T) {
			path := w.lost(t)
			got, err := w.signAll(t, w.meddler(c.meddle), path, orders(t, 1))
			refused(t, err, c.want)
			before := len(w.Logged())
			if c.want == "" && got != (sign.Tally{Finished: 1}) {
				t.Errorf("%+v", got)
			}
			if c.want == "" {
				return
			}
			if got, err := w.signAll(t, w.honest(), path, orders(t, 1)); err != nil || got != (sign.Tally{Finished: 1}) || len(w.Logged()) != before {
				t.Errorf("once the log is honest: %+v, %v", got, err)
			}
		})
	}
}

// TestDuplicateInAnEarlierTile: a signature that lies in a full tile is proven
// by that tile, which the tile above it vouches for, and that by the checkpoint.
// The first row is the twin.
func TestDuplicateInAnEarlierTile(t *testing.T) {
	w := newWorld(t)
	rows := []struct {
		name, tile string
		want       verdict.Code
	}{{"honest", "", ""}, {"a forged tile of hashes", "/tile/0/000", verdict.LogProof}, {"a forged tile above it", "/tile/1/000", verdict.LogProof}}
	paths := []string{}
	for range rows {
		paths = append(paths, w.lost(t))
	}
	list := []sign.Order{}
	for i := range 300 {
		list = append(list, sign.Order{Bytes: file(1000 + i)})
	}
	_, keep := gather(t)
	if err := w.signer(t, w.honest()).Each(t.Context(), list, keep); err != nil {
		t.Fatal(err)
	}
	for i, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			forged := 0
			_, err := w.signAll(t, w.meddler(func(c call) (*http.Response, error) {
				r, err := c.pass()
				if err != nil || row.tile == "" || !strings.Contains(c.request.URL.Path, row.tile) {
					return r, err
				}
				forged++
				status, raw := r.StatusCode, text(t, r)
				return says(status, raw[:len(raw)-1]+string([]byte{raw[len(raw)-1] ^ 1}))
			}), paths[i], orders(t, 1))
			refused(t, err, row.want)
			if (forged > 0) != (row.want != "") {
				t.Errorf("%d tiles were forged", forged)
			}
		})
	}
}

func answeringPath(what string, status int) func(call) (*http.Response, error) {
	return func(c call) (*http.Response, error) {
		if strings.Contains(c.request.URL.Path, what) {
			return says(status, "")
		}
		return c.pass()
	}
}

// TestDuplicateNowhere: a log that has a signature and does not say where gets
// another one, and that is said.
func TestDuplicateNowhere(t *testing.T) {
	w := newWorld(t)
	path := w.lost(t)
	m := w.meddler(func(c call) (*http.Response, error) {
		r, err := c.pass()
		if err == nil {
			r.Header.Del("X-Log-Index")
		}
		return r, err
	})
	got, err := w.signAll(t, m, path, orders(t, 1))
	if err != nil || got != (sign.Tally{Made: 1, Twice: 1, Entries: 2}) || len(w.Logged()) != 2 {
		t.Errorf("%+v, %v, %d entries", got, err, len(w.Logged()))
	}
	if !strings.Contains(w.told(), "does not say at which index") {
		t.Errorf("told: %s", w.told())
	}
}
