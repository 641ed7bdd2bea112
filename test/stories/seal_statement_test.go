package stories

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/scene"
)

// TestReleaseStatement: who reads in-toto and no manifest of ours gets a signed
// statement of the same, listed in the manifest and compared with it.
func TestReleaseStatement(t *testing.T) {
	const name = "lantern.release.sigstore.json"
	d := &desk{&workshop{Scene: open(t)}}
	edit(t, d.Path("lantern", "release.yaml"), `files: "https://dl.example.test/lantern/{version}/"`,
		`files: {uri: "https://dl.example.test/lantern/{version}/", statement: `+name+`, alsoFor: [packslip, scorecard]}`)
	tag(t, d.Scene, scene.Version)
	want(t, d.Stage(t.Context()), 0)
	want(t, d.Release(t.Context()), 0, "nothing extra")
	want(t, d.Verify(t.Context()), 0, "nothing extra")

	statement := d.evidence(t, filepath.Join("state", "files", name)).Statement()
	var said struct {
		Predicate struct {
			PURL string `json:"purl"`
		} `json:"predicate"`
	}
	if err := json.Unmarshal(statement.Raw(), &said); err != nil || said.Predicate.PURL != "pkg:generic/lantern@"+scene.Version || statement.PredicateType() != intoto.Release {
		t.Errorf("%q %+v, %v", statement.PredicateType(), said, err)
	}
	for file := range map[string]bool{artifact: true, "SHA256SUMS": true, "release.yaml": true} {
		if !statement.Names(file, digest.SetOf(d.read(t, filepath.Join("state", "files", file)))) {
			t.Errorf("it does not name %s", file)
		}
	}
	listed := d.evidence(t, filepath.Join("state", "files", releasemanifest.Name)).Statement().Subjects()
	if got := len(statement.Subjects()); got != len(listed)-1 {
		t.Errorf("it names %d artifacts, the manifest %d with itself", got, len(listed))
	}
	isPackslip(t, d, d.evidence(t, filepath.Join("state", "files", "packslip.sigstore.json")).Statement())
	lines := strings.Split(strings.TrimSuffix(string(d.read(t, filepath.Join("state", "files", "lantern.intoto.jsonl"))), "\n"), "\n")
	if len(lines) < 2 {
		t.Errorf("%d lines of provenance", len(lines))
	}
	for i, line := range lines {
		file := fmt.Sprintf("line-%d.sigstore.json", i)
		save(t, []byte(line), d.Path(file))
		if s := d.evidence(t, file).Statement(); s.PredicateType() != provenance.PredicateType {
			t.Errorf("line %d: %s", i+1, s.PredicateType())
		}
	}
	want(t, d.seals(t, "release", "--confirm"), 0, "sealed already")
	d.bucket(t, http.MethodPut, "release/lantern/"+scene.Version+"/"+name, "{}")
	want(t, d.Verify(t.Context()), 1, "TAMPERED", name)
}

// isPackslip holds a statement against the rules of packslip's specification and
// schema, version 1, that are about its form.
func isPackslip(t *testing.T, d *desk, s intoto.Statement) {
	t.Helper()
	var said struct {
		Predicate struct {
			Project, Version string
			PublishedAt      time.Time `json:"published_at"`
			Artifacts        []struct {
				Name, OS, Arch, Libc, Variant, Format, URL string
				Size                                       int
				Bin, Provenance                            []string
			}
			Resources []struct{ Kind, Format, Asset, URL string }
			Identity  struct {
				Scheme, Issuer string
				KeyID          string `json:"key_id"`
			}
		}
	}
	if err := json.Unmarshal(s.Raw(), &said); err != nil {
		t.Fatal(err)
	}
	p, subjects, kinds := said.Predicate, map[string]bool{}, map[string]string{}
	for _, subject := range s.Subjects() {
		subjects[subject.Name] = true
	}
	word := regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]*$`)
	for _, a := range p.Artifacts {
		kind := fmt.Sprint([]string{a.OS, a.Arch, a.Libc, a.Variant, a.Format})
		if other := kinds[kind]; other != "" {
			t.Errorf("%s and %s are of one kind: %s", other, a.Name, kind)
		}
		kinds[kind] = a.Name
		for _, value := range []string{a.OS, a.Arch, a.Libc, a.Variant, a.Format} {
			if value != "" && !word.MatchString(value) {
				t.Errorf("%s: %q is no word", a.Name, value)
			}
		}
		if a.Format == "" || a.Size <= 0 || !subjects[a.Name] || len(a.Provenance) != 1 || a.Format == "raw" && !slices.Equal(a.Bin, []string{a.Name}) {
			t.Errorf("%+v", a)
		}
		delete(subjects, a.Name)
	}
	for _, r := range p.Resources {
		if r.Kind != "sbom" || r.Format != "spdx" || !subjects[r.Asset] {
			t.Errorf("%+v", r)
		}
		delete(subjects, r.Asset)
	}
	issuer, subject := d.Lab.Identity("release")
	if s.PredicateType() != "https://packslip.dev/release/v1" || p.Project != "example.test/lantern" || "v"+p.Version != scene.Version || p.PublishedAt.IsZero() ||
		len(p.Artifacts) == 0 || len(subjects) != 0 || p.Identity.Scheme != "sigstore-oidc" || p.Identity.KeyID != subject || p.Identity.Issuer != issuer {
		t.Errorf("%+v, subjects that it does not describe: %v", p, subjects)
	}
}
