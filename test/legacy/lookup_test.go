package legacy_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sigstore/sigstore-go/pkg/sign"

	"github.com/waybill-release/waybill/pkg/backend/rekorv1"
	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// files is s as FILE.sig and FILE.cert, which no log entry comes with.
func (s signed) files(t testing.TB) legacy.Material {
	t.Helper()
	m, err := legacy.ParseFiles(legacy.Certificate, s.digest(), s.signature, s.certificate)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func openLog(t testing.TB, url string, rt http.RoundTripper) *rekorv1.Log {
	t.Helper()
	l, err := rekorv1.Open(url, rt)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func openEvidence(t testing.TB, dir string) *rekorv1.Evidence {
	t.Helper()
	e, err := rekorv1.OpenEvidence(dir)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// liar stands before the log and edits its answers.
type liar struct {
	search   func(names []string) []string
	retrieve func(entries []map[string]any) []map[string]any
}

func (l liar) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	b, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	switch {
	case err != nil:
		return nil, err
	case strings.HasSuffix(r.URL.Path, "/index/retrieve") && l.search != nil:
		b, err = edited(b, l.search)
	case strings.HasSuffix(r.URL.Path, "/entries/retrieve") && l.retrieve != nil:
		b, err = edited(b, l.retrieve)
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
	resp.Header.Del("Content-Length")
	return resp, err
}

func edited[T any](b []byte, edit func([]T) []T) ([]byte, error) {
	var list []T
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&list); err != nil {
		return nil, err
	}
	return json.Marshal(edit(list))
}

// each edits every entry of an answer, given its proofs.
func each(edit func(entry, verification map[string]any)) func([]map[string]any) []map[string]any {
	return func(list []map[string]any) []map[string]any {
		for _, answer := range list {
			for _, e := range answer {
				entry := e.(map[string]any)
				edit(entry, entry["verification"].(map[string]any))
			}
		}
		return list
	}
}

func proofOf(verification map[string]any) map[string]any {
	return verification["inclusionProof"].(map[string]any)
}

// TestLookup asks the log for what .sig and .cert do not say.
func TestLookup(t *testing.T) {
	w := newWorld(t)
	a, other := w.sign(t, []byte("a")), w.sign(t, []byte("b"))
	again := w.sign(t, []byte("a"))
	expired := w.signAs(t, &sign.PlainData{Data: []byte("a")}, []byte("a"), time.Hour)
	_ = w.sign(t, []byte("c")) // so that the tree is larger than what is asked for
	never := a
	never.signature = malleate(t, a.signature)
	strange := signed{artifact: []byte("nobody signed this"), signature: a.signature, certificate: a.certificate}
	foreign := fetchEntry(t, w, other)
	mixed := signed{artifact: a.artifact, signature: a.signature, certificate: again.certificate}
	for _, c := range []struct {
		name string
		of   signed
		log  http.RoundTripper
		want verdict.Code
	}{
		{"an honest log", a, http.DefaultTransport, ""},
		{"another signature of the same artifact", again, http.DefaultTransport, ""},
		{"a signature that was never logged", never, http.DefaultTransport, verdict.LogSigMismatch},
		{"a signature beside another's certificate", mixed, nobody{t}, verdict.SignatureBad},
		{"an artifact that was never signed", strange, nobody{t}, verdict.SignatureBad},
		{"logged after the certificate expired", expired, http.DefaultTransport, verdict.TimeCert},
		{"the entry of another artifact", a, liar{retrieve: func([]map[string]any) []map[string]any { return []map[string]any{foreign} }}, verdict.LogEntryUnbound},
		{"the entry of another artifact under the right name", a, liar{retrieve: func(list []map[string]any) []map[string]any { return []map[string]any{renamed(list, foreign)} }}, verdict.LogEntryUnbound},
		{"more entries than asked", a, liar{retrieve: func(list []map[string]any) []map[string]any { return append(list, foreign) }}, verdict.LogEntryUnbound},
		{"a log that hides it", a, liar{
			search:   func([]string) []string { return []string{} },
			retrieve: func([]map[string]any) []map[string]any { return []map[string]any{} },
		}, verdict.LogMissing},
		{"a flood of names", never, liar{search: func([]string) []string { return make([]string, 1000) }}, verdict.Limit},
		{"a promise without proof", a, liar{retrieve: each(func(_, v map[string]any) { delete(v, "inclusionProof") })}, ""},
		{"a proof without promise", a, liar{retrieve: each(func(_, v map[string]any) { delete(v, "signedEntryTimestamp") })}, verdict.TimeUnsigned},
		{"neither", a, liar{retrieve: each(func(e, _ map[string]any) { e["verification"] = map[string]any{} })}, verdict.LogProof},
		{"a good promise, a bad proof", a, liar{retrieve: each(func(_, v map[string]any) { proofOf(v)["rootHash"] = strings.Repeat("0", 64) })}, verdict.LogProof},
		{"a good promise, a bad checkpoint", a, liar{retrieve: each(func(_, v map[string]any) {
			proofOf(v)["checkpoint"] = strings.Replace(proofOf(v)["checkpoint"].(string), "\n"+fmt.Sprint(proofOf(v)["treeSize"])+"\n", "\n99\n", 1)
		})}, verdict.CheckpointSig},
		{"a good proof, a bad promise", a, liar{retrieve: each(func(_, v map[string]any) {
			v["signedEntryTimestamp"] = string(encode64(flip(again.entry.GetInclusionPromise().GetSignedEntryTimestamp())))
		})}, verdict.LogPromise},
		{"a good proof, a time that nobody promised", a, liar{retrieve: each(func(e, _ map[string]any) { e["integratedTime"] = a.entry.GetIntegratedTime() + 1 })}, verdict.LogPromise},
		{"a log that does not answer", a, broken{}, verdict.PlaceDown},
		{"a log that answers with an error", a, broken{status: http.StatusInternalServerError}, verdict.PlaceDown},
		{"a log that answers with a page", a, broken{status: http.StatusOK}, verdict.LogEntryParse},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			f := rekorv1.Finder{Log: openLog(t, w.RekorV1, c.log), Evidence: openEvidence(t, dir)}
			e, err := f.Prove(t.Context(), c.of.files(t), w.prove(c.of.artifact))
			expect(t, err, c.want)
			kept, _ := filepath.Glob(filepath.Join(dir, "*"))
			if (err == nil) != (len(kept) == 1) || e.IsZero() != (err != nil) {
				t.Errorf("kept %v, evidence is zero: %t, error %v", kept, e.IsZero(), err)
			}
		})
	}
}

// renamed gives an entry the name of the first of a list.
func renamed(list []map[string]any, entry map[string]any) map[string]any {
	out := map[string]any{}
	for name := range list[0] {
		for _, e := range entry {
			out[name] = e
		}
	}
	return out
}

// fetchEntry is the log's own answer about a signature.
func fetchEntry(t *testing.T, w *world, s signed) map[string]any {
	t.Helper()
	raw, _, err := openLog(t, w.RekorV1, http.DefaultTransport).Find(t.Context(), s.files(t))
	if err != nil {
		t.Fatal(err)
	}
	var answer map[string]any
	if err := json.Unmarshal(raw, &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

// broken is a log that gives no answer to speak of.
type broken struct{ status int }

func (b broken) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.status == 0 {
		return nil, errors.New("no route to it")
	}
	return &http.Response{
		StatusCode: b.status, Status: http.StatusText(b.status), Request: r, Header: http.Header{},
		Body: io.NopCloser(strings.NewReader("<html>")),
	}, nil
}

// TestLookupSearches finds the entry by the artifact's digest where the log
// does not know its name.
func TestLookupSearches(t *testing.T) {
	w := newWorld(t)
	a := w.sign(t, []byte("a"))
	_ = w.sign(t, []byte("a"))
	asked := 0
	byDigest := liar{retrieve: func(list []map[string]any) []map[string]any {
		if asked++; asked == 1 {
			return []map[string]any{}
		}
		return list
	}}
	_, err := rekorv1.Finder{Log: openLog(t, w.RekorV1, byDigest)}.Prove(t.Context(), a.files(t), w.prove(a.artifact))
	expect(t, err, "")
	if asked != 2 {
		t.Errorf("entries were retrieved %d times, want twice", asked)
	}
}

// TestLookupAmongStrangers: what others entered under the artifact's digest, or
// a log answers with, ends no search; alone it is no answer.
func TestLookupAmongStrangers(t *testing.T) {
	w := newWorld(t)
	a := w.sign(t, []byte("a"))
	foreign := fetchEntry(t, w, w.sign(t, []byte("b")))
	entered := func(body string) map[string]any {
		entry := maps.Clone(foreign[nameOf(foreign)].(map[string]any))
		entry["body"] = base64.StdEncoding.EncodeToString([]byte(body))
		sum := sha256.Sum256(append([]byte{0}, body...))
		return map[string]any{hex.EncodeToString(sum[:]): entry}
	}
	two := `{"apiVersion":"0.0.1","kind":"dsse","spec":{"signatures":[{"signature":"AAAA","verifier":"AAAA"},{"signature":"AAAA","verifier":"AAAA"}]}}`
	for name, c := range map[string]struct {
		stranger map[string]any
		alone    verdict.Code
	}{
		"of two signatures":   {entered(two), verdict.LogEntryParse},
		"that is no JSON":     {entered("{"), verdict.LogEntryParse},
		"of another artifact": {foreign, verdict.LogEntryUnbound},
	} {
		for place, order := range map[string]func(ours []map[string]any) []map[string]any{
			"before ours": func(ours []map[string]any) []map[string]any { return append([]map[string]any{c.stranger}, ours...) },
			"after ours":  func(ours []map[string]any) []map[string]any { return append(ours, c.stranger) },
			"alone":       func([]map[string]any) []map[string]any { return []map[string]any{c.stranger} },
		} {
			t.Run(name+", "+place, func(t *testing.T) {
				asked := 0
				log := liar{
					search: func(names []string) []string { return append(names, nameOf(c.stranger)) },
					retrieve: func(list []map[string]any) []map[string]any {
						if asked++; asked == 1 {
							return []map[string]any{} // not under its name
						}
						return order(slices.DeleteFunc(list, func(e map[string]any) bool { return nameOf(e) == nameOf(c.stranger) }))
					},
				}
				want := c.alone
				if place != "alone" {
					want = ""
				}
				_, err := rekorv1.Finder{Log: openLog(t, w.RekorV1, log)}.Prove(t.Context(), a.files(t), w.prove(a.artifact))
				expect(t, err, want)
			})
		}
	}
}

// nameOf is the name of the one entry of an answer.
func nameOf(answer map[string]any) string {
	for name := range answer {
		return name
	}
	return ""
}

// TestEvidence makes the second run need nobody.
func TestEvidence(t *testing.T) {
	w := newWorld(t)
	a, other := w.sign(t, []byte("a")), w.sign(t, []byte("b"))
	dir := filepath.Join(t.TempDir(), "evidence")
	prove := func(log *rekorv1.Log, s signed) (verify.Evidence, error) {
		return rekorv1.Finder{Log: log, Evidence: openEvidence(t, dir)}.Prove(context.Background(), s.files(t), w.prove(s.artifact))
	}
	_, err := prove(nil, a)
	expect(t, err, verdict.LogUnasked)
	if got := verdict.OutcomeOf(err); got != verdict.Unavailable || !strings.Contains(verdict.FindingOf("", err).Fix, "--rekor-url") {
		t.Errorf("outcome %v, fix %q", got, verdict.FindingOf("", err).Fix)
	}
	first, err := prove(openLog(t, w.RekorV1, http.DefaultTransport), a)
	expect(t, err, "")
	second, err := prove(openLog(t, w.RekorV1, nobody{t}), a)
	expect(t, err, "")
	if first.Bundle() != second.Bundle() || first.SignedAt() != second.SignedAt() || first.IsZero() {
		t.Errorf("first %v at %v, second %v at %v", first.Bundle(), first.SignedAt(), second.Bundle(), second.SignedAt())
	}
	_, err = prove(nil, a)
	expect(t, err, "")
	_, err = prove(nil, other)
	expect(t, err, verdict.LogUnasked)

	// What lies in the directory is no more believed than the log is.
	file := filepath.Join(dir, a.files(t).Name().Hex()+".rekor.json")
	for _, c := range []struct {
		name string
		kept []byte
		want verdict.Code
	}{
		{"of another", marshal(t, fetchEntry(t, w, other)), verdict.LogEntryUnbound},
		{"cut short", []byte("{"), verdict.LogEntryParse},
		{"as it was", marshal(t, fetchEntry(t, w, a)), ""},
	} {
		if err := os.WriteFile(file, c.kept, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := prove(openLog(t, w.RekorV1, nobody{t}), a)
		t.Run(c.name, func(t *testing.T) { expect(t, err, c.want) })
	}
}

func TestOpenLogRefuses(t *testing.T) {
	for address, want := range map[string]verdict.Code{
		"https://log.example.test": "", "http://127.0.0.1:1": "", "http://[::1]:1/": "",
		"http://log.example.test": verdict.Usage, "log.example.test": verdict.Usage, "": verdict.Usage,
		"https://user@log.example.test": verdict.Usage, "https://log.example.test/?a=b": verdict.Usage, "file:///log": verdict.Usage,
	} {
		t.Run(address, func(t *testing.T) {
			_, err := rekorv1.Open(address, http.DefaultTransport)
			expect(t, err, want)
		})
	}
}

// TestNothing is proven of nothing.
func TestNothing(t *testing.T) {
	_, err := rekorv1.Finder{}.Prove(t.Context(), legacy.Material{}, nil)
	expect(t, err, verdict.NoArtifact)
	_, err = legacy.ParseFiles(legacy.Certificate, digest.Digest{}, []byte("AA=="), nil)
	expect(t, err, verdict.NoArtifact)
}
