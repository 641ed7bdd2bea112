package signing

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// edited is a document of the lab, changed.
func edited(t *testing.T, raw []byte, edit func(document map[string]any)) []byte {
	t.Helper()
	var document map[string]any
	if err := json.Unmarshal(raw, &document); err != nil {
		t.Fatal(err)
	}
	edit(document)
	raw, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// at returns the services of a signing configuration in which the first shard is
// written to until the rotation, and the second from then on.
func (w *world) at(t *testing.T, rotation time.Time) sign.Services {
	t.Helper()
	raw := edited(t, w.SigningConfig, func(document map[string]any) {
		for _, log := range document["rekorTlogUrls"].([]any) {
			log, valid := log.(map[string]any), map[string]any{}
			if log["url"] == w.Rekor {
				valid["start"], valid["end"] = rotation.Add(-24*time.Hour).Format(time.RFC3339), rotation.Format(time.RFC3339)
			} else {
				valid["start"] = rotation.Format(time.RFC3339)
			}
			log["validFor"] = valid
		}
	})
	services, err := sign.ParseServices(raw, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return services
}

// onlyLog is a verifier whose trusted root has one log.
func (w *world) onlyLog(t *testing.T, name string) *verify.Verifier {
	t.Helper()
	return verifierOf(t, edited(t, w.TrustedRoot, func(document map[string]any) {
		var kept []any
		for _, log := range document["tlogs"].([]any) {
			if log.(map[string]any)["baseUrl"] == "http://"+name {
				kept = append(kept, log)
			}
		}
		if len(kept) != 1 {
			t.Fatalf("%d logs at %s", len(kept), name)
		}
		document["tlogs"] = kept
	}))
}

// TestShardRotates: the shard of the log is frozen in the middle of a release,
// and a new signing configuration names the next one. What is in the old shard
// stays there, what is not goes to the new one, and nothing is signed twice. A
// trusted root with both accepts everything; with one, only what is in that.
func TestShardRotates(t *testing.T) {
	w := newPair(t, lab.Signing{})
	path, list := journalIn(t), orders(t, 6)
	w.services = w.at(t, time.Now().Add(time.Hour))
	frozen := w.meddler(nil)
	frozen.meddle = func(c call) (*http.Response, error) {
		if c.service == "rekor" && frozen.to("rekor") > 3 {
			return says(http.StatusServiceUnavailable, "this shard is frozen")
		}
		return c.pass()
	}
	first, err := w.signAll(t, frozen, path, list)
	refused(t, err, verdict.PlaceDown)
	if first.Made != 3 || len(w.Logged()) != 3 {
		t.Fatalf("%+v, %d entries: want half of the release in the old shard", first, len(w.Logged()))
	}

	w.services = w.at(t, time.Now().Add(-time.Minute))
	bundles := make([][]byte, len(list))
	m := w.honest()
	signer := w.signer(t, m, keeping(t, path))
	err = signer.Each(t.Context(), list, func(i int, bundle []byte, _ verify.Evidence) error {
		bundles[i] = bundle
		return nil
	})
	refused(t, err, "")
	if got := signer.Tally(); got.Found != 3 || got.Made+got.Finished != 3 || m.to("rekor") != 0 || m.to("rekor2") != 3 || w.twins() != 0 {
		t.Errorf("%+v, requests %v, %d entries, %d twice", got, m.calls, len(w.Logged()), w.twins())
	}

	old := 0
	for i, o := range list {
		judge := func(v *verify.Verifier) (err error) {
			if o.Statement.IsZero() {
				_, err = v.Blob(bundles[i], o.Bytes)
			} else {
				_, err = v.Attestation(bundles[i])
			}
			return err
		}
		refused(t, judge(w.verifier), "")
		inOld, inNew := judge(w.onlyLog(t, "rekor.insecure-lab.invalid")), judge(w.onlyLog(t, "rekor-2.insecure-lab.invalid"))
		if inOld == nil {
			old++
			refused(t, inNew, verdict.LogUnknown)
			continue
		}
		refused(t, inOld, verdict.LogUnknown)
		refused(t, inNew, "")
	}
	if old != 3 {
		t.Errorf("%d of %d in the old shard, want 3", old, len(list))
	}
}
