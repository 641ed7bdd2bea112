package attacks

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	journals "github.com/waybill-release/waybill/pkg/backend/journal"
	"github.com/waybill-release/waybill/pkg/document/promotionrecord"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/produce/attest"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// recorded is an image that was judged, and is to be recorded.
type recorded struct {
	*attacked
	made attest.Promoted
}

func (w *world) recorded(t testing.TB) *recorded {
	t.Helper()
	r := w.attacked(t)
	node := r.graph(t)
	v := gate.PolicyRequest{Policy: w.profile.Policy, Verifier: w.verifier, Stage: policy.Staging, Version: w.version.String(), Now: time.Now()}.
		Image(t.Context(), gate.Image{Source: r.images, Name: repository, Repository: repository, Digest: node.Descriptor.Digest})
	// Its SBOM is a file of the release, and not attached to it.
	v.Findings = slices.DeleteFunc(v.Findings, func(f verdict.Finding) bool { return f.Code == verdict.NoSBOM })
	v.Counts.Verified = v.Counts.Required
	accepted(t, v.Err())
	if !slices.Contains(v.Scope.Left, "its name and tag: the verified evidence names only bytes") {
		t.Fatalf("it leaves out %q", v.Scope.Left)
	}
	if v.Least == nil || v.Least.Artifacts != 1+len(node.Children) {
		t.Fatalf("the verdict says of levels %+v", v.Least)
	}
	return &recorded{r, attest.Promoted{
		Source: "staging.example.test/lantern", Digest: node.Descriptor.Digest, Verdict: v,
		Destinations: []attest.Destination{{Ref: "registry.example.test/lantern", Tags: []string{"v0.1.0"}}, {Ref: "eu.example.test/lantern", Tags: []string{"v0.1.0", "v0.1"}}},
	}}
}

// recorder makes records with a journal, in a role, with the token of somebody.
func (r *recorded) recorder(t testing.TB, file string, role policy.Role, as string, through *spy) *attest.Records {
	t.Helper()
	j := must[*journals.Journal](t)(journals.Open(file))
	t.Cleanup(func() { _ = j.Close() })
	signer := must[*sign.Signer](t)(sign.New(sign.Config{
		Role: role, Policy: r.profile.Policy, Verifier: r.verifier, Transport: through, Clock: time.Now, Work: sign.Work{Kept: must[*sign.Kept](t)(sign.Keep(j))},
		Services: must[sign.Services](t)(sign.ParseServices(r.Lab.SigningConfig, time.Now())),
		Token:    func(context.Context) (string, error) { return r.Lab.Token(as), nil },
	}))
	return must[*attest.Records](t)(attest.New(attest.Config{
		Signer: signer, Journal: j, Verifier: r.verifier, Policy: r.profile.Policy, Clock: time.Now,
		As: attest.As{ID: "https://verifier.example.test/v1", Policy: "https://example.test/policy.yaml", Promoter: promotionrecord.Promoter{Version: "v1.0.0"}},
	}))
}

// TestRecordsOfAnImage: an image has one summary and one record of its
// promotion, whatever the number of places and tags, however often and by how
// many at once it is asked, and after a crash (fault 21).
func TestRecordsOfAnImage(t *testing.T) {
	w := theWorld(t)
	r := w.recorded(t)
	through, file := newSpy(), filepath.Join(t.TempDir(), "records.jsonl")
	logged := func() int { return through.to(t, w.Lab.Rekor) }
	records := r.recorder(t, file, policy.Verifier, lab.RoleVerifier, through)
	var all sync.WaitGroup
	made := make([][]attest.Signed, 16)
	for i := range made {
		all.Go(func() { made[i] = must[[]attest.Signed](t)(records.Image(context.Background(), r.made)) })
	}
	all.Wait()
	if logged() != 2 {
		t.Fatalf("%d log entries for two records", logged())
	}
	for _, one := range made {
		if len(one) != 2 || one[0].Kind != vsa.PredicateType || one[1].Kind != promotionrecord.PredicateType || !bytes.Equal(one[0].Bundle, made[0][0].Bundle) || !bytes.Equal(one[1].Bundle, made[0][1].Bundle) {
			t.Fatalf("%d records, or not all the same", len(one))
		}
	}
	r.says(t, made[0])

	r.made.Verdict.Time = r.made.Verdict.Time.Add(time.Hour) // judged anew
	r.made.Manifest = promotionrecord.Resource{Name: "another manifest"}
	copied := filepath.Join(t.TempDir(), "records.jsonl")
	copyFile(t, file, copied)
	after := must[[]attest.Signed](t)(r.recorder(t, copied, policy.Verifier, lab.RoleVerifier, through).Image(t.Context(), r.made))
	r.made.There = [][]byte{[]byte("nonsense"), made[0][1].Bundle, made[0][0].Bundle}
	fresh := r.recorder(t, filepath.Join(t.TempDir(), "none.jsonl"), policy.Verifier, lab.RoleVerifier, through)
	there := must[[]attest.Signed](t)(fresh.Image(t.Context(), r.made))
	if !bytes.Equal(after[0].Bundle, made[0][0].Bundle) || !bytes.Equal(there[1].Bundle, made[0][1].Bundle) || !there[0].Found || after[0].Found || logged() != 2 {
		t.Errorf("asked again: %d log entries", logged())
	}
	// While the canonical place is away the summary is the very same, for it was
	// judged for both; the record of the promotion names the one that has it.
	both := r.made.Destinations
	r.made.There, r.made.Destinations = nil, both[1:]
	r.made.For = []string{both[0].Ref, both[1].Ref}
	away := must[[]attest.Signed](t)(records.Image(t.Context(), r.made))
	if !bytes.Equal(away[0].Bundle, made[0][0].Bundle) || bytes.Equal(away[1].Bundle, made[0][1].Bundle) || logged() != 3 {
		t.Errorf("one place is away: %d log entries", logged())
	}
	// What is another statement is another record.
	r.made.Destinations, both[1].Tags = both, []string{"latest"}
	if _, err := records.Image(t.Context(), r.made); err != nil || logged() != 4 {
		t.Errorf("another tag: %d log entries, %v", logged(), err)
	}
}

func (r *recorded) says(t testing.TB, made []attest.Signed) {
	t.Helper()
	e := must[verify.Evidence](t)(r.verifier.Attestation(made[0].Bundle))
	said := must[vsa.Summary](t)(vsa.Parse(e.Statement()))
	if level, known := said.Level(vsa.TrackBuild); !known || level != r.made.Verdict.Least.Level || said.ResourceURI != "registry.example.test/lantern@"+r.made.Digest.String() || len(said.Inputs) == 0 {
		t.Errorf("says %+v", said)
	}
	e = must[verify.Evidence](t)(r.verifier.Attestation(made[1].Bundle))
	p := must[promotionrecord.Record](t)(promotionrecord.Parse(e.Statement()))
	if len(e.Statement().Subjects()) != 2 || !slices.Equal(p.Tags, []string{"v0.1", "v0.1.0"}) || !strings.HasSuffix(p.Builder, "@v1.0.0") || p.Destination != "registry.example.test/lantern" {
		t.Errorf("says %+v of %v", p, e.Statement().Subjects())
	}
}

// TestRecordsAfterALogThatIsAway: nothing is made twice of what the log did
// not take in time.
func TestRecordsAfterALogThatIsAway(t *testing.T) {
	w := theWorld(t)
	r := w.recorded(t)
	through, file := newSpy(), filepath.Join(t.TempDir(), "records.jsonl")
	through.cut = hostOf(t, w.Lab.Rekor)
	_, err := r.recorder(t, file, policy.Verifier, lab.RoleVerifier, through).Image(t.Context(), r.made)
	refused(t, err, verdict.PlaceDown)
	before := len(w.Lab.Logged())
	copied := filepath.Join(t.TempDir(), "records.jsonl")
	copyFile(t, file, copied)
	if _, err := r.recorder(t, copied, policy.Verifier, lab.RoleVerifier, newSpy()).Image(t.Context(), r.made); err != nil || len(w.Lab.Logged())-before != 2 {
		t.Errorf("%d log entries, %v", len(w.Lab.Logged())-before, err)
	}
}

// TestRecordsAreTheVerifiers: nobody else signs them, of nothing that was not
// accepted, and what somebody else signed is not taken for one.
func TestRecordsAreTheVerifiers(t *testing.T) {
	w := theWorld(t)
	r := w.recorded(t)
	rows := []struct {
		name  string
		role  policy.Role
		as    string
		edit  func(*attest.Promoted)
		codes []verdict.Code
	}{
		{"the verifier", policy.Verifier, lab.RoleVerifier, func(*attest.Promoted) {}, nil},
		{"the release identity", policy.Release, lab.RoleRelease, func(*attest.Promoted) {}, codes(verdict.IdentityRole)},
		{"the release identity's token", policy.Verifier, lab.RoleRelease, func(*attest.Promoted) {}, codes(verdict.SignedAsElse)},
		{"what was refused", policy.Verifier, lab.RoleVerifier, func(m *attest.Promoted) {
			m.Verdict.Add(verdict.Find(verdict.Missing, repository, "gone"))
		}, codes(verdict.Missing)},
		{"on the word of a verifier", policy.Verifier, lab.RoleVerifier, func(m *attest.Promoted) {
			m.Verdict.Proofs = append(slices.Clone(m.Verdict.Proofs), verdict.Proof{Statement: vsa.PredicateType, Bundle: digest.Of(digest.SHA256, nil)})
		}, codes(verdict.VSAVerifier)},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			made, judged := r.made, *r.made.Verdict
			made.Verdict = &judged
			row.edit(&made)
			through := newSpy()
			_, err := r.recorder(t, filepath.Join(t.TempDir(), "records.jsonl"), row.role, row.as, through).Image(t.Context(), made)
			refused(t, err, row.codes...)
			if row.codes != nil && through.to(t, w.Lab.Rekor) > 0 {
				t.Error("something was logged")
			}
		})
	}
	forged := must[[]attest.Signed](t)(r.recorder(t, filepath.Join(t.TempDir(), "a.jsonl"), policy.Verifier, lab.RoleVerifier, newSpy()).Image(t.Context(), r.made))
	said := must[verify.Evidence](t)(r.verifier.Attestation(forged[0].Bundle)).Statement()
	r.made.There = [][]byte{must[[]byte](t)(w.Sign(t.Context(), "mallory@evil.example", said.Raw()))}
	through := newSpy()
	if again := must[[]attest.Signed](t)(r.recorder(t, filepath.Join(t.TempDir(), "b.jsonl"), policy.Verifier, lab.RoleVerifier, through).Image(t.Context(), r.made)); again[0].Found || through.to(t, w.Lab.Rekor) != 2 {
		t.Error("a stranger's summary is taken for the verifier's")
	}
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	if err := os.WriteFile(to, must[[]byte](t)(os.ReadFile(from)), 0o600); err != nil {
		t.Fatal(err)
	}
}
