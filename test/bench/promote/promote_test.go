package promote

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/promoter"
	"github.com/waybill-release/waybill/pkg/registry"
	"github.com/waybill-release/waybill/test/bench"
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
	remote, err := registry.OpenRemote(s.from.name+"/"+staging, http.DefaultTransport)
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
	s.from.count()
	ref := s.source(0) + "@" + node.Children[0].Descriptor.Digest.String()
	if said, err := s.command(t.Context(), filepath.Join(r.Bin, "waybill"), "gate", "image", ref, "--policy", policyName, "--trusted-root", rootName).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if asked, n := sum(s.from.count()); n > 3+1 { // and the greeting of a new process
		t.Errorf("judging one manifest takes %d requests: %v", n, asked)
	}
}

// TestFar: a line that is long loses nothing, and keeps the order.
func TestFar(t *testing.T) {
	for _, trip := range []time.Duration{0, 4 * time.Millisecond} {
		near, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			all, _ := io.ReadAll(r.Body)
			_, _ = w.Write(all)
		})}
		go func() { _ = server.Serve(far{near, trip}) }()
		client := &http.Client{Transport: &http.Transport{}}
		for i := range 3 {
			sent := strings.Repeat(fmt.Sprintf("line %d of %s\n", i, trip), 1+i*20_000)
			began := time.Now()
			resp, err := client.Post("http://"+near.Addr().String(), "text/plain", strings.NewReader(sent))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			if err != nil || string(got) != sent {
				t.Errorf("%s: %d bytes came back of %d, %v", trip, len(got), len(sent), err)
			}
			if took := time.Since(began); took < trip {
				t.Errorf("an answer took %s over a line of %s", took, trip)
			}
			_ = resp.Body.Close()
		}
		client.CloseIdleConnections()
		_ = server.Close()
	}
}

// TestFarEnds: who hangs up is noticed at the other end.
func TestFarEnds(t *testing.T) {
	near, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	client, err := net.Dial("tcp", near.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	served, err := far{near, 2 * time.Millisecond}.Accept()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(client, "good bye")
	_ = client.Close()
	if line, err := bufio.NewReader(served).ReadString('\n'); err != nil || line != "good bye\n" {
		t.Errorf("%q, %v", line, err)
	}
	if _, err := io.ReadAll(served); err != nil {
		t.Error(err)
	}
}

func TestTree(t *testing.T) {
	dir := t.TempDir()
	tree := Tree{Manifests: 3, Images: 2, Digests: 11, Regions: 4}
	if err := tree.Write(dir); err != nil {
		t.Fatal(err)
	}
	all, err := promoter.ReadDir(os.DirFS(dir))
	if err != nil || len(all) != tree.Manifests {
		t.Fatalf("%d manifests, %v", len(all), err)
	}
}

func TestSum(t *testing.T) {
	all, total := sum(map[string]int{"GET blobs": 2}, map[string]int{"GET blobs": 1, "GET tags": 4})
	if total != 7 || all["GET blobs"] != 3 || all["GET tags"] != 4 {
		t.Error(all, total)
	}
	for path, want := range map[string]string{"/v2/": "greeting", "/v2/a/manifests/v1": "manifests", "/v2/a/b/blobs/uploads/": "blobs", "/v2/a/referrers/x": "referrers", "/v2/a/tags/list": "tags"} {
		if got := kind(path); got != want {
			t.Errorf("%s is about %s, want %s", path, got, want)
		}
	}
}

func TestRefusesNonsense(t *testing.T) {
	if err := Run(context.Background(), io.Discard, Request{Way: "walk", Dir: t.TempDir(), Seed: t.TempDir()}); err == nil {
		t.Error("images out of nothing")
	}
}
