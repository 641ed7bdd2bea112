package promote

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/release/promoterfile"
	"github.com/waybill-release/waybill/test/bench"
	"github.com/waybill-release/waybill/test/bench/far"
)

// built are images, and the waybill that promotes them.
func built(t *testing.T, n int) Request {
	t.Helper()
	bin, seed := t.TempDir(), t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, "waybill"), "./cmd/waybill")
	cmd.Dir = filepath.Join("..", "..", "..")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if err := Seed(t.Context(), seed, n); err != nil {
		t.Fatal(err)
	}
	return Request{N: n, Bin: bin, Seed: seed, Dir: t.TempDir()}
}

func (r Request) sample(t *testing.T, way string) bench.Sample {
	t.Helper()
	r.Way = way
	var said bytes.Buffer
	if err := Run(t.Context(), &said, r); err != nil {
		t.Fatal(err)
	}
	var s bench.Sample
	if err := json.Unmarshal(said.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRequests: how often the registries are asked is promised, and counted
// here by them. A slow request more for each image is what nobody notices on
// one machine.
func TestRequests(t *testing.T) {
	const n = 4
	r := built(t, n)
	const greetings = 2
	s := r.sample(t, Apply)
	if s.Facts[FactTags] != n || s.Facts[FactReferrers] != n*Bundles {
		t.Errorf("at the destination are %d tags and %d bundles", s.Facts[FactTags], s.Facts[FactReferrers])
	}
	// What is written is read back: manifests, lists and blobs, and the tag
	// before and after it is written. The source is asked for its older tags.
	const back = Manifests + Manifests + (Blobs + Bundles + 1) + 2
	if most := n*(WithEvidence+back+1) + greetings; s.Requests > most {
		t.Errorf("promoting %d images takes %d requests, want at most %d: %v", n, s.Requests, most, s.Facts)
	}
	s = r.sample(t, Again)
	if most := 2*n + greetings; s.Requests > most {
		t.Errorf("promoting what is there takes %d requests, want at most %d: %v", s.Requests, most, s.Facts)
	}
	// A manifest, what refers to it, and a bundle; and of a platform that an
	// index names, what it says itself that it is.
	s = r.sample(t, Gate)
	if most := n*(3*Manifests+Manifests-1) + greetings; s.Requests > most {
		t.Errorf("judging takes %d requests, want at most %d: %v", s.Requests, most, s.Facts)
	}
}

// TestRequestsOfOne: three requests judge an image that stands alone.
func TestRequestsOfOne(t *testing.T) {
	r := built(t, 1)
	s, err := open(r, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.close() }()
	if err := s.write(); err != nil {
		t.Fatal(err)
	}
	remote, err := registry.OpenRemote(s.from.Name+"/"+staging, http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf(imagesFormat, 0)
	d, err := remote.Resolve(t.Context(), name, imageTag)
	if err != nil {
		t.Fatal(err)
	}
	node, err := registry.Graph(t.Context(), remote, name, d)
	if err != nil {
		t.Fatal(err)
	}
	s.from.Count()
	ref := s.source(0) + "@" + node.Children[0].Descriptor.Digest.String()
	if said, err := s.command(t.Context(), filepath.Join(r.Bin, "waybill"), "gate", "image", ref, "--policy", policyName, "--trusted-root", rootName).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if asked, n := far.Sum(s.from.Count()); n > 3+1 { // and the greeting of a new process
		t.Errorf("judging one manifest takes %d requests: %v", n, asked)
	}
}

func TestTree(t *testing.T) {
	dir := t.TempDir()
	tree := Tree{Manifests: 3, Images: 2, Digests: 11, Regions: 4}
	if err := tree.Write(dir); err != nil {
		t.Fatal(err)
	}
	all, bad, err := promoterfile.ReadUsable(os.DirFS(dir))
	if err != nil || len(all) != tree.Manifests || len(bad) != 0 {
		t.Fatalf("%d manifests, %v, %v", len(all), bad, err)
	}
}

func TestRefusesNonsense(t *testing.T) {
	if err := Run(context.Background(), io.Discard, Request{Way: "walk", Dir: t.TempDir(), Seed: t.TempDir()}); err == nil {
		t.Error("images out of nothing")
	}
}
