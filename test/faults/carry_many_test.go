package faults_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-release/waybill/test/faults"
	"github.com/waybill-release/waybill/test/scene"
)

// most is how many promoters run at once where all but one are kept out, and
// promoters how many where each does everything, unless all is asked for.
const most = 16

func promoters() int {
	if os.Getenv(allStrikes) != "" {
		return most
	}
	return 4
}

// as is the same promotion, remembered in another directory.
func (c *carry) as(state string) *carry {
	other := *c
	other.state = state
	return &other
}

// atOnce runs the command several times at once.
func (c *carry) atOnce(n int, one func(i int) []string) []scene.Result {
	c.t.Helper()
	c.patient = true
	args := make([][]string, n)
	for i := range n {
		args[i] = one(i)
	}
	results := make([]scene.Result, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { results[i] = c.run(args[i]...) })
	}
	all.Wait()
	return results
}

// leases is an empty directory for leases.
func (c *carry) leases() string {
	c.t.Helper()
	if err := os.MkdirAll(staged.Path(c.place+"-leases"), 0o755); err != nil {
		c.t.Fatal(err)
	}
	return c.place + "-leases"
}

// Row 21: sixteen promoters of one plan. Those that share a state directory, or
// a lease, keep each other out: one does it, the others say that they are
// busy, or that it is there already, and everything is recorded once.
func TestCarryManyPromoters(t *testing.T) {
	for name, flags := range map[string]func(*carry) func(int) []string{
		"one state directory": func(c *carry) func(int) []string { return func(int) []string { return c.args() } },
		"one lease": func(c *carry) func(int) []string {
			at := c.leases()
			return func(i int) []string { return c.as(fmt.Sprint(c.state, "-", i)).args("--lease", at) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, before, well := newCarry(t), entries(t), 0
			for _, r := range c.atOnce(most, flags(c)) {
				if r.Code == 0 {
					well++
				} else if r.Code != 3 || !strings.Contains(r.Stdout+r.Stderr, "BUSY") {
					t.Errorf("status %d\n%s%s", r.Code, r.Stdout, r.Stderr)
				}
			}
			if well == 0 {
				t.Error("none of them did it")
			}
			c.settled()
			once(t, before, c.made())
			c.mended()
			once(t, before, c.made())
			t.Logf("%d at once: %d ended well, the others were busy", most, well)
		})
	}
	t.Run("nothing keeps them out", func(t *testing.T) {
		c, before := newCarry(t), entries(t)
		for _, r := range c.atOnce(promoters(), func(i int) []string { return c.as(fmt.Sprint(c.state, "-", i)).args() }) {
			want(t, r, 0, "OK ")
		}
		if c.sound() != 2 {
			t.Error("the image is not in both regions")
		}
		once(t, before, c.made())
		t.Logf("%d at once, without a lease: %d records", promoters(), c.made())
	})
}

// rival promotes the image of one platform to the same tag of the same regions,
// through doors of its own. What the policy asks of both is what both have.
func (c *carry) rival() *carry {
	c.t.Helper()
	c.policy = c.place + ".policy.yaml"
	c.write(c.policy, strings.Replace(c.read("policy.yaml"), "sbom: require", `sbom: "off"`, 1))
	c.write(c.profile, strings.Replace(c.read(c.profile), "policy: policy.yaml", "policy: "+c.policy, 1))
	night := *c.night
	night.registry = faults.Before(c.t, "http://"+staged.Lab.Registry)
	r := &carry{night: &night, us: faults.Before(c.t, "http://"+staged.Lab.Registry), state: c.state + "-rival", plan: c.plan + "-rival", policy: c.policy}
	r.image, r.refer = c.look(c.at("staging/lantern"), c.image.Children[0].Descriptor)
	r.planFor(r.plan, r.image.Descriptor.Digest)
	return r
}

// bothHave demands that the tag names the image in both regions, whole. Who
// promoted the index recorded this platform, too.
func (c *carry) bothHave() {
	c.t.Helper()
	if n := c.sound(); n != 2 {
		c.t.Errorf("the image is in %d of two regions", n)
	}
}

// held is a request that waits.
type held struct {
	arrived, gone chan struct{}
	once          sync.Once
}

func hold() *held { return &held{arrived: make(chan struct{}), gone: make(chan struct{})} }

func (h *held) act(w http.ResponseWriter, r *http.Request, next http.Handler) {
	h.once.Do(func() {
		close(h.arrived)
		<-h.gone
	})
	next.ServeHTTP(w, r)
}

// wait waits for the request.
func (h *held) wait(t *testing.T, ended <-chan scene.Result) {
	t.Helper()
	select {
	case <-h.arrived:
	case r := <-ended:
		t.Fatalf("it ended before, with status %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	case <-time.After(time.Minute):
		t.Fatal("it never came")
	}
}

// Row 22: two promoters, two images, one tag. While one copies, the other tags;
// the one says so, and overwrites nothing. With a lease it does not begin.
func TestCarryTwoImages(t *testing.T) {
	t.Run("nothing keeps them out", func(t *testing.T) {
		c := newCarry(t)
		r := c.rival()
		c.patient, r.patient = true, true
		waits := hold()
		c.registry.Spoil(all("PUT", "/manifests/sha256:", waits.act)...)
		args := c.args()
		slow := make(chan scene.Result, 1)
		go func() { slow <- c.run(args...) }()
		waits.wait(t, slow)
		want(t, r.apply(), 0, "OK ")
		close(waits.gone)
		if ended := <-slow; ended.Code != 1 || !strings.Contains(ended.Stdout, "TAG_RACE") && !strings.Contains(ended.Stdout, "TAG_CONFLICT") {
			t.Errorf("status %d\n%s%s", ended.Code, ended.Stdout, ended.Stderr)
		}
		r.bothHave()
		want(t, c.apply(), 1, "TAG_CONFLICT", "verified=0 required=2")
		r.bothHave()
	})
	t.Run("one lease", func(t *testing.T) {
		c := newCarry(t)
		r := c.rival()
		c.patient, r.patient = true, true
		at := c.leases()
		waits := hold()
		c.registry.Spoil(all("PUT", "/manifests/sha256:", waits.act)...)
		args := c.args("--lease", at)
		slow := make(chan scene.Result, 1)
		go func() { slow <- c.run(args...) }()
		waits.wait(t, slow)
		want(t, r.apply("--lease", at), 3, "BUSY")
		if n := r.writes(r.registry) + r.writes(r.us); n != 0 {
			t.Errorf("who is kept out wrote %d times", n)
		}
		close(waits.gone)
		want(t, <-slow, 0, "OK ")
		c.settled()
		want(t, r.apply("--lease", at), 1, "TAG_CONFLICT")
		c.settled()
	})
}

// Row 23: who holds the lease is stopped before it tags, for longer than the
// lease lasts. Another takes it over; who wakes writes no tag.
func TestCarryHolderIsStopped(t *testing.T) {
	c := newCarry(t)
	r := c.rival()
	c.patient, r.patient = true, true
	at := c.leases()
	waits := hold()
	c.registry.Spoil(all("GET", "/referrers/", waits.act)...)
	c.us.Spoil(all("GET", "/referrers/", waits.act)...)
	cmd, log := c.start(c.args("--lease", at, "--lease-term", "2s")...)
	waits.wait(t, nil)
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	tries := 0
	again := func() scene.Result { return r.apply("--lease", at, "--lease-term", "2s") }
	for ended := again(); ended.Code != 0; ended = again() {
		if want(t, ended, 3, "BUSY"); tries == 200 {
			t.Fatal("the lease does not run out")
		}
		tries++
	}
	close(waits.gone)
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // how it ended is looked at below
	said, err := os.ReadFile(log.Name())
	if err != nil {
		t.Fatal(err)
	}
	if code := cmd.ProcessState.ExitCode(); code != 3 || !strings.Contains(string(said), "BUSY") {
		t.Errorf("who woke ended with %d:\n%s", code, said)
	}
	r.bothHave()
	t.Logf("the lease was taken over after %d tries", tries)
}

// Row 48: hardly any descriptors, and many regions at once.
func TestCarryFewDescriptors(t *testing.T) {
	c := newCarry(t)
	manifest := c.read(c.plan + ".yaml")
	for i := range 20 {
		manifest = strings.Replace(manifest, "images:\n", fmt.Sprintf("- {name: %s/release/%s/more%d}\nimages:\n", c.registry.Host, c.place, i), 1)
	}
	c.write(c.plan+".yaml", manifest)
	c.replan("nothing", "nothing")
	args := c.args()
	cmd := exec.Command("sh", "-c", `ulimit -n 64; exec "$0" "$@"`, filepath.Join(staged.Bin, args[0]))
	cmd.Args = append(cmd.Args, scene.Whole(args)[1:]...)
	cmd.Dir, cmd.Env = staged.Dir, append(os.Environ(), "XDG_CACHE_HOME="+staged.Path("cache"), "WAYBILL_PATIENCE=30s")
	said, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 0 && (code != 3 || !strings.Contains(string(said), "required=22")) {
		t.Errorf("%v\n%s", err, said)
	}
	c.sound()
	c.patient = true
	want(t, c.apply(), 0, "verified=22 required=22")
	c.settled()
}

// TestCarryLaterRegion: a region that was away gets the image later, and what
// is there already is asked about and left alone. The summaries are those that
// the other region has; only that the image is in both is recorded anew.
func TestCarryLaterRegion(t *testing.T) {
	c, before := newCarry(t), entries(t)
	c.us.Spoil(all("", "", faults.Dies)...)
	r := c.hurried("--output", "json")
	want(t, r, 3, `"verified": 1`, `"required": 2`)
	if c.public("release/"+c.place+"/us") || !c.public("release/"+c.place+"/eu") {
		t.Error("one region is as the other")
	}
	c.us.Heal()
	writes := c.writes(c.registry)
	want(t, c.apply(), 0, "Copies that an earlier run had made, with their evidence: 1")
	if n := c.writes(c.registry); n != writes {
		t.Errorf("the region that had it was written to %d times", n-writes)
	}
	c.settled()
	once(t, before, c.made())
	if n := c.made(); n != len(c.image.Children)+3 {
		t.Errorf("%d records: want a summary for each manifest, and two of the promotion", n)
	}
}
