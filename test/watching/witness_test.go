package watching

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	cosignature "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// cosigner is a witness that cosigns whatever it gets.
type cosigner struct {
	signer note.Signer
	key    string // as a policy names it
}

func newCosigner(t *testing.T, name string) cosigner {
	t.Helper()
	private, public, err := note.GenerateKey(nil, name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := cosignature.NewSignerForCosignatureV1(private)
	if err != nil {
		t.Fatal(err)
	}
	return cosigner{s, public}
}

// lines are the cosignatures of a checkpoint.
func lines(t *testing.T, checkpoint string, by ...cosigner) (text string) {
	t.Helper()
	body, _, _ := strings.Cut(checkpoint, "\n\n")
	for _, c := range by {
		signed, err := note.Sign(&note.Note{Text: body + "\n"}, c.signer)
		if err != nil {
			t.Fatal(err)
		}
		_, line, _ := strings.Cut(string(signed), "\n\n")
		text += line
	}
	return text
}

// asks lets the policy of a world ask for cosignatures.
func (w *world) asks(t *testing.T, block string) error {
	t.Helper()
	p, err := policy.Parse([]byte(policyText(w.Lab)+block), nil)
	if err != nil {
		return err
	}
	root, err := trust.Parse(w.TrustedRoot)
	if err != nil {
		t.Fatal(err)
	}
	v, err := verify.NewWith(root, p.Verification())
	if err != nil {
		t.Fatal(err)
	}
	w.Gate = gate.Under(profile.Profile{Policy: p, TrustRoot: root}, v, gate.Waivers{}, nil)
	return nil
}

// TestWitnesses: a checkpoint counts if as many witnesses of the policy cosigned it as it
// asks for, for the watch and in a bundle. Each row differs in one cosignature.
func TestWitnesses(t *testing.T) {
	a, b, c, stranger := newCosigner(t, "a.example"), newCosigner(t, "b.example"), newCosigner(t, "c.example"), newCosigner(t, "d.example")
	posing := newCosigner(t, "b.example")
	block := "witnesses:\n  atLeast: 2\n  keys: [\"" + strings.Join([]string{a.key, b.key, c.key}, `", "`) + "\"]\n"
	for name, row := range map[string]struct {
		by      []cosigner
		another string // a line from another checkpoint
		want    verdict.Code
	}{
		"two of three":            {by: []cosigner{c, a}},
		"all, and a stranger":     {by: []cosigner{stranger, a, b, c}},
		"none":                    {want: "WITNESS_FEW"},
		"one":                     {by: []cosigner{b}, want: "WITNESS_FEW"},
		"one twice":               {by: []cosigner{b, b}, want: "WITNESS_FEW"},
		"one, and a stranger":     {by: []cosigner{b, stranger}, want: "WITNESS_FEW"},
		"one by another key":      {by: []cosigner{a, posing}, want: "WITNESS_FEW"},
		"one of another tree":     {by: []cosigner{a, c}, another: "other.example\n1\nAAAA\n\n", want: "WITNESS_SIG"},
		"one of an earlier state": {by: []cosigner{a}, another: "earlier", want: "WITNESS_SIG"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.From = 0
			w.sign(t, lab.RoleVerifier, "of no interest")
			if err := w.asks(t, block); err != nil {
				t.Fatal(err)
			}
			cosigned := func(checkpoint string) string {
				of := row.another
				if of == "earlier" {
					signed, err := w.Checkpoint(1, make([]byte, 32))
					if err != nil {
						t.Fatal(err)
					}
					of = signed
				}
				if of != "" {
					checkpoint += lines(t, of, b)
				}
				return checkpoint + lines(t, checkpoint, row.by...)
			}
			honest := w.answer.Load()
			w.answer.Store(func(rw http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, "/checkpoint") {
					return false
				}
				back := httptest.NewRecorder()
				w.real.ServeHTTP(back, r)
				_, _ = rw.Write([]byte(cosigned(back.Body.String())))
				return true
			})
			var codes []verdict.Code
			if row.want != "" {
				codes = append(codes, row.want)
			}
			w.pass(t, codes...)
			w.answer.Store(honest)
			w.pass(t, "WITNESS_FEW")

			text := "third"
			bundle := w.sign(t, lab.RoleRelease, text)
			_, err := w.Gate.Verifier().Blob(withCosigned(t, bundle, cosigned), digest.SetOf([]byte(text)))
			if got := verdict.FindingOf("", err).Code; err == nil != (row.want == "") || err != nil && got != row.want {
				t.Errorf("in a bundle: %v", err)
			}
		})
	}
	w := newWorld(t)
	for name, block := range map[string]string{
		"more than there are": "witnesses: {atLeast: 2, keys: [\"" + a.key + "\"]}\n",
		"one key twice":       "witnesses: {atLeast: 1, keys: [\"" + a.key + "\", \"" + strings.Replace(a.key, "a.example", "e.example", 1) + "\"]}\n",
		"no key":              "witnesses: {atLeast: 1, keys: [\"a.example\"]}\n",
		"none asked for":      "witnesses: {keys: [\"" + a.key + "\"]}\n",
	} {
		if err := w.asks(t, block); verdict.FindingOf("", err).Code != verdict.ConfigParse {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// withCosigned is a bundle with another checkpoint.
func withCosigned(t *testing.T, bundle []byte, cosigned func(string) string) []byte {
	t.Helper()
	var b map[string]any
	if err := json.Unmarshal(bundle, &b); err != nil {
		t.Fatal(err)
	}
	entry := b["verificationMaterial"].(map[string]any)["tlogEntries"].([]any)[0].(map[string]any)
	checkpoint := entry["inclusionProof"].(map[string]any)["checkpoint"].(map[string]any)
	checkpoint["envelope"] = cosigned(checkpoint["envelope"].(string))
	raw, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
