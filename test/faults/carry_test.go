package faults_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/document/promotionrecord"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/faults"
	"github.com/waybill-release/waybill/test/scene"
)

// carry is a night on which an image goes from staging to two regions by a
// plan: each region is a registry behind a door of its own, eu behind the
// night's registry.
type carry struct {
	*night
	us     *faults.Proxy
	image  *registry.Node // as it is staged
	refer  map[digest.Digest][]digest.Digest
	state  string // directory that remembers
	plan   string
	policy string
	more   []string // regions beside the two, behind the door of eu
}

// carried is the image that every plan promotes, and what refers to it.
const carried = "lantern"

func newCarry(t *testing.T) *carry {
	t.Helper()
	c := &carry{night: newNight(t), policy: "policy.yaml"}
	c.us = faults.Before(t, "http://"+staged.Lab.Registry)
	c.state, c.plan = c.place+"-promotions", c.place+".plan.json"
	body, err := os.ReadFile(staged.Path(c.profile))
	if err != nil {
		t.Fatal(err)
	}
	c.write(c.profile, strings.Replace(string(body), "places:\n", "records: {verifier: \"https://verifier.example.test/v1\", policy: \"https://example.test/policy.yaml\"}\nplaces:\n", 1))
	from := c.at("staging/lantern")
	root, err := from.Resolve(t.Context(), carried, scene.Version)
	if err != nil {
		t.Fatal(err)
	}
	c.image, c.refer = c.look(from, root)
	c.planFor(c.plan, root.Digest)
	return c
}

// regions are the destinations, two unless more are added: as they are behind
// the doors, and as the plan names them.
func (c *carry) regions() map[string]string {
	all := map[string]string{
		"release/" + c.place + "/eu": c.registry.Host, "release/" + c.place + "/us": c.us.Host,
	}
	for _, name := range c.more {
		all["release/"+c.place+"/"+name] = c.registry.Host
	}
	return all
}

func (c *carry) doors() []*faults.Proxy { return append(c.proxies(), c.us) }

// at is a registry as it is, behind the doors.
func (c *carry) at(prefix string) *registry.Remote {
	c.t.Helper()
	r, err := registry.OpenRemote(staged.Lab.Registry+"/"+prefix, transport.New(transport.Config{}))
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

// planFor plans the promotion of an image of the staged repository.
func (c *carry) planFor(name string, d digest.Digest) {
	c.t.Helper()
	manifest := fmt.Sprintf("registries:\n- {name: %s/staging/lantern, src: true}\n", c.stagedImage.Host)
	for path, host := range c.regions() {
		manifest += fmt.Sprintf("- {name: %s/%s}\n", host, path)
	}
	c.write(name+".yaml", manifest+fmt.Sprintf("images:\n- name: %s\n  dmap: {%q: [%s]}\n", carried, d.String(), scene.Version))
	r := staged.Run(c.t.Context(), "waybill", "promote", "plan", name+".yaml", "-o", "json")
	want(c.t, r, 0)
	c.write(name, r.Stdout)
}

// args are those of applying the plan, with a token of the verifier.
func (c *carry) args(flags ...string) []string {
	name := c.place + ".verifier"
	c.write(name, staged.Lab.Token("verifier"))
	return append([]string{"waybill", "promote", "apply", c.plan, "--profile", c.profile, "--state", c.state,
		"--identity-token", "verifier=" + name, "--patience", "2s", "--confirm"}, flags...)
}

// apply applies the plan.
func (c *carry) apply(flags ...string) scene.Result {
	c.t.Helper()
	return c.run(c.args(flags...)...)
}

// hurried applies the plan with hardly any patience: what is lost stays lost.
func (c *carry) hurried(flags ...string) scene.Result {
	c.t.Helper()
	return runWith(c.t, []string{"WAYBILL_PATIENCE=800ms", "XDG_CACHE_HOME=" + staged.Path("cache")}, c.args(flags...)...)
}

// look reads an image and what refers to each of its manifests, every byte.
func (c *carry) look(r *registry.Remote, root registry.Descriptor) (*registry.Node, map[digest.Digest][]digest.Digest) {
	c.t.Helper()
	read := func(d registry.Descriptor) *registry.Node {
		node, err := registry.Graph(c.t.Context(), r, carried, d)
		if err == nil {
			_, err = registry.VerifyBlobs(c.t.Context(), r, carried, node)
		}
		if err != nil {
			c.t.Fatalf("%s@%s is not whole: %v", r.Prefix(), d.Digest, err)
		}
		return node
	}
	node, refer := read(root), map[digest.Digest][]digest.Digest{}
	_ = node.Walk(func(n *registry.Node) error {
		list, err := r.Referrers(c.t.Context(), carried, n.Descriptor.Digest)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, d := range list {
			read(d)
			refer[n.Descriptor.Digest] = append(refer[n.Descriptor.Digest], d.Digest)
		}
		return nil
	})
	return node, refer
}

// public reports whether the tag is there in a region, and then demands that
// everything is: that is what must hold at every moment, whatever fails. All
// manifests and blobs, all that referred to them where they came from, the
// verifier's records, and the verdict of the gate about what is there now.
func (c *carry) public(region string) bool {
	c.t.Helper()
	r := c.at(region)
	root, err := r.Resolve(c.t.Context(), carried, scene.Version)
	if errors.Is(err, registry.ErrNotFound) {
		return false
	}
	if err != nil {
		c.t.Fatal(err)
	}
	if !root.Digest.Equal(c.image.Descriptor.Digest) {
		c.t.Fatalf("%s: the tag names %s", region, root.Digest)
	}
	_, there := c.look(r, root)
	for of, list := range c.refer {
		for _, d := range list {
			if !slices.ContainsFunc(there[of], d.Equal) {
				c.t.Fatalf("%s: the tag is there, and %s, which refers to %s, is not", region, d, of)
			}
		}
	}
	for of, kinds := range c.records(region) {
		if kinds[vsa.PredicateType] == 0 || of.Equal(root.Digest) && kinds[promotionrecord.PredicateType] == 0 {
			c.t.Fatalf("%s: the tag is there, and the records of %s are not: %v", region, of, kinds)
		}
	}
	want(c.t, staged.Run(c.t.Context(), "waybill", "gate", "image", staged.Lab.Registry+"/"+region+"/"+carried+":"+scene.Version,
		"--policy", c.policy, "--stage", "release", "--release-version", scene.Version, "--trusted-root", "trusted_root.json"), 0, "OK ")
	return true
}

// records counts what the verifier recorded of each manifest in a region.
func (c *carry) records(region string) map[digest.Digest]map[string]int {
	c.t.Helper()
	r, found := c.at(region), map[digest.Digest]map[string]int{}
	_ = c.image.Walk(func(n *registry.Node) error {
		of := n.Descriptor.Digest
		list, err := r.Referrers(c.t.Context(), carried, of)
		if err != nil {
			c.t.Fatal(err)
		}
		found[of] = map[string]int{}
		for _, d := range list {
			if kind := d.Annotations["dev.sigstore.bundle.predicateType"]; kind == vsa.PredicateType || kind == promotionrecord.PredicateType {
				found[of][kind]++
			}
		}
		return nil
	})
	return found
}

// sound demands of every region that its tag is old, which is none here, or
// new and complete, and says in how many it is new.
func (c *carry) sound() (public int) {
	c.t.Helper()
	for region := range c.regions() {
		if c.public(region) {
			public++
		}
	}
	return public
}

// settled demands that all is there, once, in every region: what was staged,
// and one record of each kind.
func (c *carry) settled() {
	c.t.Helper()
	if n := c.sound(); n != len(c.regions()) {
		c.t.Fatalf("%d of %d regions have the tag", n, len(c.regions()))
	}
	for region := range c.regions() {
		for of, kinds := range c.records(region) {
			whole := map[string]int{vsa.PredicateType: 1}
			if of.Equal(c.image.Descriptor.Digest) {
				whole[promotionrecord.PredicateType] = 1
			}
			if !maps.Equal(kinds, whole) {
				c.t.Errorf("%s: of %s there is recorded %v, want %v", region, of, kinds, whole)
			}
		}
		_, there := c.look(c.at(region), c.image.Descriptor)
		for of, list := range there {
			if extra := len(list) - len(c.refer[of]); extra != 1 && (extra != 2 || !of.Equal(c.image.Descriptor.Digest)) {
				c.t.Errorf("%s: %d more than staged refer to %s", region, extra, of)
			}
		}
	}
}

// mended heals the world and applies the plan again, which must then be done.
func (c *carry) mended() {
	c.t.Helper()
	for _, p := range c.doors() {
		p.Heal()
	}
	c.patient = true
	all := len(c.regions())
	want(c.t, c.apply(), 0, "OK ", fmt.Sprintf("verified=%d required=%d", all, all))
	c.settled()
}

// forget takes the memory away, as on another machine.
func (c *carry) forget() {
	c.t.Helper()
	if err := os.RemoveAll(filepath.Join(staged.Dir, c.state)); err != nil {
		c.t.Fatal(err)
	}
}

// made is how many records of these promotions there are, each counted once in
// however many regions it is.
func (c *carry) made() int {
	c.t.Helper()
	all := map[digest.Digest]bool{}
	for region := range c.regions() {
		_, there := c.look(c.at(region), c.image.Descriptor)
		for of, list := range there {
			for _, d := range list {
				if !slices.ContainsFunc(c.refer[of], d.Equal) {
					all[d] = true
				}
			}
		}
	}
	return len(all)
}

// once demands that the log got one entry for each record that is there, since
// it had that many: nothing was signed twice, and nothing for nobody.
func once(t *testing.T, before, made int) {
	t.Helper()
	if added := entries(t) - before; added != made {
		t.Errorf("the log has %d new entries for %d records", added, made)
	}
}

// TestCarry: nothing fails, and the second run has nothing to do.
func TestCarry(t *testing.T) {
	c, before := newCarry(t), entries(t)
	c.mended()
	writes := c.writes(c.registry)
	want(t, c.apply(), 0, "Copies that an earlier run had made, with their evidence: 2")
	if n := c.writes(c.registry); n != writes {
		t.Errorf("the second run wrote %d times", n-writes)
	}
	c.forget()
	c.mended()
	once(t, before, c.made())
	if n := c.made(); n != len(c.image.Children)+2 {
		t.Errorf("%d records: want a summary for each manifest, and one of the promotion", n)
	}
	t.Logf("%d writes to a region", writes)
}

// writes counts the requests through a door that change something.
func (c *carry) writes(p *faults.Proxy) (n int) {
	for _, r := range p.Seen() {
		if r.Method != "GET" && r.Method != "HEAD" {
			n++
		}
	}
	return n
}
