package stories

import (
	"io"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/waybill-release/waybill/test/lab/modules"
	"github.com/waybill-release/waybill/test/scene"
)

// TestLongFetchStory: what a build takes from the world is what the source pins.
// A proxy that lies, one that lost it and one that does not answer each stop
// the build before any step runs, and each in its own way.
func TestLongFetchStory(t *testing.T) {
	s := openExample(t, small)
	name := modules.Path + "/@v/" + modules.Version + ".mod"
	genuine := read(t, s.Lab.Modules+"/"+name)

	s.Lab.PutModule(name, append([]byte("// a word more\n"), genuine...))
	want(t, s.Stage(t.Context()), 1, "FETCH_HASH", "example.test/wick@v0.1.0/go.mod", "not the one pinned in go.sum", "do not build with it")
	s.Lab.PutModule(name, nil)
	want(t, s.Stage(t.Context()), 1, "FETCH_MISSING", name, "modules.proxy")
	if logs, err := filepath.Glob(s.Path("state", "logs", "*")); err != nil || len(logs) > 0 {
		t.Errorf("steps have run: %q, %v", logs, err)
	}

	s.Lab.PutModule(name, genuine)
	want(t, s.Stage(t.Context()), 0, "all match go.sum")
	if err := s.Lab.Stop("modules"); err != nil {
		t.Fatal(err)
	}
	want(t, s.Stage(t.Context()), 0, "0 files downloaded", "2 reused")
	build := []string{"waybill", "build", scene.Version, "--profile", "profile.yaml", "--source", "lantern", "--state", "elsewhere"}
	for _, role := range []string{"builder", "builder-unisolated"} {
		build = append(build, "--identity-token", role+"="+role+".token") // as the stage has left them
	}
	want(t, s.Run(t.Context(), build...), 3, "UNAVAILABLE", "nothing was decided")
}

// read fetches what anybody can.
func read(t *testing.T, url string) []byte {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, response.Status, err)
	}
	return raw
}
