package servers

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/waybill-release/waybill/test/scene"
)

// onceStaged is the sealed release, staged in the laboratory once for all tests
// that publish it elsewhere.
var onceStaged = sync.OnceValues(func() (*scene.Scene, error) {
	sealed, err := suite.sealed()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(suite.dir, "staged-")
	if err != nil {
		return nil, err
	}
	s, err := sealed.Copy(dir, nil)
	if err != nil {
		return nil, err
	}
	if r := s.Stage(context.Background()); r.Code != 0 {
		return nil, fmt.Errorf("%s\nended with status %d\n%s%s", r, r.Code, r.Stdout, r.Stderr)
	}
	return s, nil
})

// staged is the scene of [onceStaged], with an environment of its own.
func staged(t *testing.T, env ...string) *scene.Scene {
	t.Helper()
	s, err := onceStaged()
	if err != nil {
		t.Fatal(err)
	}
	own := *s
	own.Env = env
	return &own
}

// published is the staged release, published somewhere.
type published struct {
	*scene.Scene

	name string
	// Files and Images are where: a place, and a registry with a path.
	Files, Images string
}

// elsewhere names where a release is published: files and images, each in the
// laboratory, below the name of the test, if it is empty.
func elsewhere(t *testing.T, s *scene.Scene, files, images string) published {
	t.Helper()
	name := strings.NewReplacer("/", "-", " ", "-", "_", "-").Replace(t.Name()) + "-" + rand.Text()[:4] // a laboratory may be used again
	p := published{Scene: s, name: strings.ToLower(name), Files: files, Images: images}
	if p.Files == "" {
		p.Files = s.Places.Files + "/release/" + p.name
	}
	if p.Images == "" {
		p.Images = s.Lab.Registry + "/release/" + p.name
	}
	raw, err := os.ReadFile(s.Path("profile.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer(
		fmt.Sprintf("release: %q", s.Places.Files+"/release/lantern/{version}/"), fmt.Sprintf("release: %q", p.Files+"/{version}/"),
		fmt.Sprintf("release: %q", s.Places.Images+"/release/lantern"), fmt.Sprintf("release: %q", p.Images),
	).Replace(string(raw))
	if err := os.WriteFile(s.Path(p.profile()), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p published) profile() string { return "profile-" + p.name + ".yaml" }

// release publishes what is staged.
func (p published) release(t *testing.T) scene.Result {
	return p.Run(t.Context(), "waybill", "release", scene.Version, "--profile", p.profile(), "--state", "state-"+p.name, "--confirm")
}

// verify verifies what is published.
func (p published) verify(t *testing.T, flags ...string) scene.Result {
	return p.Run(t.Context(), append([]string{"k8s-verify-release", scene.Version, "--profile", p.profile()}, flags...)...)
}
