package gate

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/judge/census"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// pushed makes a registry of one index, demo:v1, with two platforms.
func pushed(t *testing.T) registry.Source {
	t.Helper()
	l, err := registry.OpenLayout(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	push := func(mediaType, fields string) registry.Descriptor {
		raw := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,%s}`, mediaType, fields)
		d := registry.Descriptor{MediaType: mediaType, Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw))}
		if err := l.PushManifest(t.Context(), "demo", d, raw); err != nil {
			t.Fatal(err)
		}
		return d
	}
	var entries []string
	for _, arch := range []string{"amd64", "arm64"} {
		config := fmt.Appendf(nil, `{"os":"linux","architecture":%q}`, arch)
		c := registry.Descriptor{Digest: digest.Of(digest.SHA256, config), Size: int64(len(config))}
		if err := l.PushBlob(t.Context(), "demo", c, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(config)), nil }); err != nil {
			t.Fatal(err)
		}
		d := push(registry.MediaTypeManifest, fmt.Sprintf(`"config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":%q,"size":%d},"layers":[]`, c.Digest, c.Size))
		entries = append(entries, fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":%d,"platform":{"os":"linux","architecture":%q}}`, d.MediaType, d.Digest, d.Size, arch))
	}
	if err := l.Tag(t.Context(), "demo", "v1", push(registry.MediaTypeIndex, `"manifests":[`+strings.Join(entries, ",")+`]`)); err != nil {
		t.Fatal(err)
	}
	return l
}

// TestProvenByIndex: if the evidence of an index counts for its platforms, they need
// none of their own, and the verdict says so.
func TestProvenByIndex(t *testing.T) {
	for _, row := range []struct {
		byIndex, signed bool
		verified        int
	}{{true, true, 3}, {false, true, 1}, {true, false, 0}} {
		rule := levelRule{}
		if row.signed {
			rule["demo:v1"] = 1
		}
		j := terms{now: time.Unix(0, 0)}.beginBy("q", rule)
		r := ImageRequest{Ask: Ask{Signer: SignedBy(&verify.Verifier{})}, ByIndex: row.byIndex}
		r.judge(t.Context(), j, Image{Source: pushed(t), Name: "demo:v1", Repository: "demo", Tag: "v1"})
		v := j.endCounted()
		said := slices.Contains(v.Notes, "demo:v1: 2 manifests proven by the evidence of the index, which lists them by digest")
		if v.Counts.Required != 3 || v.Counts.Verified != row.verified || said != (row.verified == 3) {
			t.Errorf("%+v: %s, notes %q", row, v.Counts, v.Notes)
		}
	}
}

// TestForeignStatementsOfImages: a statement about an image is late evidence only if
// the policy allows it.
func TestForeignStatementsOfImages(t *testing.T) {
	e := signedAttestation(t)
	image := pulled{name: "oci/demo", digest: e.Statement().Subjects()[0].Digests.SHA256}
	i := item{question: policy.Question{Stage: policy.Published, Subject: image.name}, attached: []verify.Evidence{e}}
	i.answer = levelRule{image.name: 1}.Decide(i)
	who := fmt.Sprintf("{issuer: %q, subject: %q, type: email}", e.Identity().Issuer, e.Identity().Subject)
	for late, want := range map[string]string{
		"": "ignored 1 attached statement",
		"late: [{predicate: \"" + e.Kind() + "\", role: verifier, stages: [release]}]\n": "late evidence of images, as the policy allows: 1 of " + e.Kind() + " by " + e.Identity().Subject,
	} {
		by := validBut(t, `{issuer: "https://accounts.example.test", subject: verifier@example.test, type: email}`, who, "plan: require\n", "plan: require\n"+late)
		var f facts
		countAttached(by, []pulled{image}, []item{i}).note(&f)
		if len(f.notes) != 1 || !strings.HasPrefix(f.notes[0], want) {
			t.Errorf("%q: notes %q, want %q", late, f.notes, want)
		}
	}
}

// signedAttestation is a verified statement about one file.
func signedAttestation(t *testing.T) verify.Evidence {
	t.Helper()
	s := genuine(t, "attestation")
	e, err := s.verifier.Attestation(content(t, s.bundle))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestUnsignedProvenance: provenance without a signature is read, and the verdict
// notes what is unusual in it. What cannot be read is refused with the reason.
func TestUnsignedProvenance(t *testing.T) {
	const statement = `{"_type":"https://in-toto.io/Statement/v0.1","subject":[{"name":"gs://b/release/v1.31.2/bin/linux/amd64/kubectl","digest":{"sha256":"%064d"}}],"predicateType":%q,"predicate":%s}`
	for _, row := range []struct {
		name, raw string
		code      verdict.Code
	}{
		{"provenance without a builder", fmt.Sprintf(statement, 0, "https://slsa.dev/provenance/v0.2", `{"builder":{"id":""},"buildType":"https://example.test/build"}`), ""},
		{"no statement", "{", verdict.StatementParse},
		{"no provenance", fmt.Sprintf(statement, 0, "https://example.test/predicate", `{}`), verdict.PredicateType},
	} {
		var f facts
		w, err := without(t, nil).readProvenance([]byte(row.raw), &f)
		if refusedAs(err) != row.code || (w.Len() == 1) != (row.code == "") {
			t.Errorf("%s: %d files, %v, want %q", row.name, w.Len(), err, row.code)
		}
		if noted := strings.Contains(strings.Join(f.notes, "\n"), "lint of provenance.json: "); noted != (row.code == "") {
			t.Errorf("%s: notes %q", row.name, f.notes)
		}
	}
}

// recorded is a recorded release on GitHub, about which nothing is attested.
type recorded struct{ store.Place }

func (recorded) Evidence(context.Context, []string) ([]string, [][]byte, error) { return nil, nil, nil }

// TestAssetsOnGitHub: an asset without evidence is unsigned, also if a bundle is about
// another one.
func TestAssetsOnGitHub(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"no bundle":            {"lantern": "lantern"},
		"a bundle of no asset": {"lantern": "lantern", "torch.sigstore.json": "{"},
	} {
		r := GitHubRelease{Repository: "https://github.com/example/lantern", Tag: "v1.2.3", Files: recorded{place(t, files)}, Roots: []trust.Root{trust.Embedded()}, Now: time.Now()}
		v := r.Decide(t.Context())
		if len(v.Findings) != len(files) || v.Counts.Verified != 0 || v.Counts.Required != len(files) {
			t.Errorf("%s: %s, %v", name, v.Counts, v.Findings)
		}
		for _, f := range v.Findings {
			if f.Code != verdict.Unsigned {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
}

// TestBundleOfAnotherAsset: a statement proves nothing about an asset that it does not
// name.
func TestBundleOfAnotherAsset(t *testing.T) {
	lantern := census.Item{Name: "lantern", Digests: digest.SetOf([]byte("lantern"))}
	for name, want := range map[string]bool{"torch": false, "lantern": true} {
		said, err := intoto.New("https://slsa.dev/provenance/v1", []intoto.Subject{{Name: name, Digests: digest.SetOf([]byte(name))}}, map[string]any{})
		if err != nil {
			t.Fatal(err)
		}
		why := verdict.Refuse(verdict.ChainUntrusted, name, "untrusted")
		proves, err := new(GitHubRelease).weigh(foundBundle{said: said, err: why}, lantern)
		if proves || (err != nil) != want {
			t.Errorf("about %s: %t, %v", name, proves, err)
		}
	}
}

// TestSumsOnGitHub: a checksum file covers the assets that it names, by either
// algorithm, without those of another platform.
func TestSumsOnGitHub(t *testing.T) {
	set := digest.SetOf([]byte("lantern"))
	body := set.SHA256.Hex() + "  lantern-linux-amd64\n" + set.SHA512.Hex() + " *./lantern.txt\n" + set.SHA256.Hex() + "  lantern-windows-amd64\n"
	r := &GitHubRelease{Files: place(t, map[string]string{"SHA256SUMS": body}), Platform: "linux/amd64", assets: []census.Item{{Name: "lantern.txt", Digests: set}}}
	list, err := r.readSums(t.Context(), census.Item{Name: "SHA256SUMS", Digests: digest.SetOf([]byte(body))})
	want := []census.Item{{Name: "lantern-linux-amd64", Digests: digest.Set{SHA256: set.SHA256}}, {Name: "lantern.txt", Digests: digest.Set{SHA256: set.SHA256}}}
	if err != nil || !slices.Equal(list, want) {
		t.Errorf("%+v, %v, want %+v", list, err, want)
	}
}
