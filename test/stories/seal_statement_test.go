package stories

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"testing"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/scene"
)

// TestReleaseStatement: who reads in-toto and no manifest of ours gets a signed
// statement of the same, listed in the manifest and compared with it.
func TestReleaseStatement(t *testing.T) {
	const name = "lantern.release.sigstore.json"
	d := &desk{&workshop{Scene: open(t)}}
	edit(t, d.Path("lantern", "release.yaml"), `files: "https://dl.example.test/lantern/{version}/"`,
		`files: {uri: "https://dl.example.test/lantern/{version}/", statement: `+name+`}`)
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
	want(t, d.seals(t, "release", "--confirm"), 0, "sealed already")
	d.bucket(t, http.MethodPut, "release/lantern/"+scene.Version+"/"+name, "{}")
	want(t, d.Verify(t.Context()), 1, "TAMPERED", name)
}
