package attacks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// failing is a place of files of which one question fails: the listing, or the
// object of a name.
type failing struct {
	store.Place
	listing error
	object  string
}

func (f failing) List(ctx context.Context) ([]store.Object, error) {
	if f.listing != nil {
		return nil, f.listing
	}
	return f.Place.List(ctx)
}

func (f failing) Open(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	if name == f.object {
		return nil, 0, noAnswer("reading " + name)
	}
	return f.Place.Open(ctx, name)
}

// silentTags is a registry that does not answer which tags there are, and
// silentReferrers one that does not answer what refers to an image.
type (
	silentTags      struct{ registry.Source }
	silentReferrers struct{ registry.Source }
)

func (silentTags) Tags(context.Context, string) ([]string, error) {
	return nil, noAnswer("listing tags")
}

func (silentReferrers) Referrers(context.Context, string, digest.Digest) ([]registry.Descriptor, error) {
	return nil, noAnswer("listing referrers")
}

func noAnswer(op string) error {
	return &verdict.UnavailableError{Place: "the place", Op: op, Err: errors.New("it answered 503")}
}

// TestFailedListings: a list that was not answered is none that is empty, also
// where the policy does not ask for a closed place, or only warns.
func TestFailedListings(t *testing.T) {
	r := theWorld(t).attacked(t)
	unlisted := fmt.Errorf("listing: %w", store.ErrNotListable)
	const note = "note.sigstore.json"
	with := func(files, images string) func(*gate.Request) {
		return func(q *gate.Request) {
			q.Policy = r.policy(t, "closed: {files: require, images: require}", fmt.Sprintf("closed: {files: %q, images: %q}", files, images))
		}
	}
	files := func(f failing) func(*gate.Request) {
		return func(q *gate.Request) {
			f.Place = q.Files
			q.Files = f
		}
	}
	images := func(of func(registry.Source) registry.Source) func(*gate.Request) {
		return func(q *gate.Request) { q.Images = of(q.Images) }
	}
	tags := images(func(s registry.Source) registry.Source { return silentTags{s} })
	referrers := images(func(s registry.Source) registry.Source { return silentReferrers{s} })
	for _, row := range []struct {
		name  string
		edits []func(*gate.Request)
		late  bool // somebody added a statement
		codes []verdict.Code
	}{
		{"files, closed", []func(*gate.Request){files(failing{listing: noAnswer("listing")})}, false, codes(verdict.PlaceDown)},
		{"files, not closed", []func(*gate.Request){with("off", "require"), files(failing{listing: noAnswer("listing")})}, false, codes(verdict.PlaceDown)},
		{"files, warned of", []func(*gate.Request){with("warn", "require"), files(failing{listing: noAnswer("listing")})}, false, codes(verdict.PlaceDown)},
		{"files that cannot be listed, not closed", []func(*gate.Request){with("off", "require"), files(failing{listing: unlisted})}, false, nil},
		{"files that cannot be listed, closed", []func(*gate.Request){files(failing{listing: unlisted})}, false, codes(verdict.NotListable)},
		{"tags, closed", []func(*gate.Request){tags}, false, codes(verdict.PlaceDown)},
		{"tags, warned of", []func(*gate.Request){with("require", "warn"), tags}, false, codes(verdict.PlaceDown)},
		{"tags that nobody asks for", []func(*gate.Request){with("require", "off"), tags}, false, nil},
		{"referrers", []func(*gate.Request){referrers}, false, codes(verdict.PlaceDown)},
		{"a statement that came later", []func(*gate.Request){with("off", "require"), files(failing{object: note})}, true, codes(verdict.PlaceDown)},
		{"a statement that came later, and can be read", []func(*gate.Request){with("off", "require")}, true, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := r
			if row.late {
				r = theWorld(t).attacked(t)
				r.write(t, note, []byte("{}"))
			}
			refused(t, r.gate(t, row.edits...).Err(), row.codes...)
		})
	}
}

// TestSummariesThatCannotBeRead: a verifier's later refusal is not overlooked
// because the place, or the registry, did not answer when it was asked for.
func TestSummariesThatCannotBeRead(t *testing.T) {
	r := theWorld(t).attacked(t)
	said := func(result string, age time.Duration) []byte {
		level := "SLSA_BUILD_LEVEL_3"
		if result != "PASSED" {
			level = "FAILED"
		}
		var of []intoto.Subject
		for _, a := range r.manifest(t).Artifacts {
			of = append(of, intoto.Subject{Name: a.Name, Digests: digest.Set{SHA256: a.Digests.SHA256}})
		}
		st := must[intoto.Statement](t)(intoto.New(vsa.PredicateType, of, map[string]any{
			"verifier": map[string]string{"id": "https://example.test/verifier"}, "timeVerified": time.Now().UTC().Add(-age).Format(time.RFC3339),
			"resourceUri":        "https://dl.example.test/lantern/" + r.version.String() + "/",
			"policy":             map[string]any{"uri": "https://example.test/policy", "digest": map[string]string{"sha256": strings.Repeat("0", 63) + "1"}},
			"verificationResult": result, "verifiedLevels": []string{level}, "slsaVersion": "1.0",
		}))
		return r.sign(t, lab.RoleVerifier, st.Raw())
	}
	text := string(must[[]byte](t)(os.ReadFile(r.Path("policy.yaml"))))
	for old, with := range map[string]string{
		provenance.BuilderIsolated:   "https://example.test/another-builder", // so that provenance alone does not do
		provenance.BuilderUnisolated: "https://example.test/no-builder",
		"plan: require\n": fmt.Sprintf("plan: require\nlate: [{predicate: %q, role: verifier, stages: [release]}]\n"+
			"summaries: [{verifier: \"https://example.test/verifier\", resource: \"https://dl.example.test/lantern/{version}/\", maxAge: 24h, levels: {BUILD: 2}, "+
			"policy: {uri: \"https://example.test/policy\", sha256: %q}}]\n", vsa.PredicateType, strings.Repeat("0", 63)+"1"),
		"closed: {files: require, images: require}": "closed: {files: \"off\", images: require}",
	} {
		text = string(replaceOne(t, []byte(text), old, with))
	}
	vouching := func(q *gate.Request) {
		q.Policy, q.Options.AcceptSummaries = must[policy.Policy](t)(policy.Parse([]byte(text), nil)), true
	}
	broken := func(object string) func(*gate.Request) {
		return func(q *gate.Request) {
			q.Files = failing{q.Files, fmt.Errorf("listing: %w", store.ErrNotListable), object}
		}
	}
	const other = "of-the-verifier" + gate.BundleSuffix // a name that only a listing shows
	r.write(t, other, said("PASSED", time.Hour))
	accepted(t, r.gate(t, vouching).Err())
	if got := codesOf(r.gate(t, vouching, broken("")).Err()); !slices.Contains(got, verdict.Builder) {
		t.Errorf("codes %v, want BUILDER: nothing shows the summary", got)
	}
	if err := os.Remove(r.path(other)); err != nil {
		t.Fatal(err)
	}
	r.write(t, vsa.Name(1), said("PASSED", time.Hour))
	accepted(t, r.gate(t, vouching).Err())
	accepted(t, r.gate(t, vouching, broken("")).Err())
	r.write(t, vsa.Name(2), said("FAILED", time.Minute))
	without := codesOf(r.gate(t, vouching, broken("")).Err())
	if !slices.Contains(without, verdict.Builder) || slices.Contains(without, verdict.PlaceDown) {
		t.Errorf("codes %v, want BUILDER: the later summary refuses, so provenance decides", without)
	}
	if got := codesOf(r.gate(t, vouching, broken(vsa.Name(2))).Err()); !slices.Contains(got, verdict.PlaceDown) {
		t.Errorf("codes %v, want UNAVAILABLE: the later summary could not be read", got)
	}
	listed := func(q *gate.Request) { q.Files = failing{Place: q.Files, object: vsa.Name(2)} }
	if got := codesOf(r.gate(t, vouching, listed).Err()); !slices.Contains(got, verdict.PlaceDown) {
		t.Errorf("codes %v, want UNAVAILABLE: the later summary is listed, and could not be read", got)
	}
	if got := codesOf(r.gate(t, vouching, func(q *gate.Request) { q.Images = silentReferrers{q.Images} }).Err()); !slices.Contains(got, verdict.PlaceDown) {
		t.Errorf("codes %v, want UNAVAILABLE: a summary may refer to the image", got)
	}
}
