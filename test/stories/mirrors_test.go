package stories

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/faults"
	"github.com/waybill-release/waybill/test/scene"
)

// login answers with a login page.
func login(kind string) faults.Act {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", kind)
		_, _ = fmt.Fprint(w, "<!doctype html><html><body>Please log in</body></html>")
	}
}

// only spoils one kind of request.
func only(path string, do faults.Act) []faults.Fault { return []faults.Fault{{Path: path, Do: do}} }

// audit runs verify mirrors, and returns the exit status and the state of each part
// that is not whole: state and end of the subject.
func (a admin) audit(args ...string) (code int, states []string, v verdict.Verdict) {
	a.t.Helper()
	r := a.Run(a.t.Context(), append([]string{"waybill", "verify", "mirrors"}, append(args, "--profile", "profile.yaml", "--output", "json")...)...)
	if err := json.Unmarshal([]byte(r.Stdout), &v); err != nil {
		a.t.Fatalf("%v: %s%s", err, r.Stdout, r.Stderr)
	}
	for _, f := range v.Findings {
		state, _, _ := strings.Cut(f.Message, ":")
		states = append(states, string(f.Code)+" "+state)
	}
	slices.Sort(states)
	return r.Code, slices.Compact(states), v
}

// behind plans the image to the first region behind a proxy, with more lines of the
// manifest's digests.
func (a admin) behind(p *faults.Proxy, name, digests string) {
	a.t.Helper()
	manifest := strings.NewReplacer(a.Lab.Registry+"/eu", p.Host+"/eu", "- {name: "+a.Lab.Registry+"/us/lantern}\n", "", "dmap: {", "dmap: {"+digests).Replace(string(a.read("m.yaml")))
	if err := os.WriteFile(a.Path("m2.yaml"), []byte(manifest), 0o644); err != nil {
		a.t.Fatal(err)
	}
	r := a.Run(a.t.Context(), "waybill", "promote", "plan", "m2.yaml", "-o", "json")
	want(a.t, r, 0)
	if err := os.WriteFile(a.Path(name), []byte(r.Stdout), 0o644); err != nil {
		a.t.Fatal(err)
	}
}

// TestMirrorsOfImages: each fault of a registry has its own state, and no fault of
// the way there is reported as changed bytes. The twin of each is the same place
// without the fault.
func TestMirrorsOfImages(t *testing.T) {
	a := openAdmin(t)
	want(t, a.apply(), 0)
	p := faults.Before(t, "http://"+a.Lab.Registry)
	elsewhere := faults.Before(t, "http://"+a.Lab.Registry, only("", login("text/html"))...)
	a.behind(p, "one.json", "")
	list, err := a.at("staging/lantern").Referrers(t.Context(), "lantern", a.image.Digest)
	if err != nil || len(list) == 0 {
		t.Fatal(list, err)
	}
	node, err := registry.Graph(t.Context(), a.at("staging/lantern"), "lantern", a.image)
	if err != nil {
		t.Fatal(err)
	}
	child := node.Children[0].Descriptor
	for _, region := range regions() { // it is an older version there
		if err := a.at(region).Tag(t.Context(), "lantern", "v0.0.9", child); err != nil {
			t.Fatal(err)
		}
	}
	a.behind(p, "two.json", fmt.Sprintf("%q: [v0.0.9], ", child.Digest))
	a.behind(p, "newer.json", fmt.Sprintf("%q: [v0.9.0], ", child.Digest))
	byDigest, evidence, layer := "/manifests/"+a.image.Digest.String(), "/manifests/"+list[0].Digest.String(), "/blobs/"+node.Children[0].Layers[0].Digest.String()
	none := faults.Loses(200, `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}`)
	nothing := func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		w.Header().Set("Content-Type", registry.MediaTypeIndex)
		none(w, r, next)
	}
	older := func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		r.URL.Path = strings.ReplaceAll(r.URL.Path, "/manifests/v0.1.0", byDigest[0:11]+child.Digest.String())
		next.ServeHTTP(w, r)
	}
	const silent, lost, drop, other, denied = "UNAVAILABLE not answering", "MISSING missing", "EVIDENCE_MISSING evidence dropped", "TAMPERED bytes changed", "CREDENTIAL_REFUSED not allowed"
	moved := []faults.Fault{{Path: "/manifests/v0.1.0", Do: older}}
	for name, c := range map[string]struct {
		script []faults.Fault
		code   int
		want   []string
	}{
		"whole (the twin of each)":                     {nil, 0, nil},
		"no image":                                     {only("/manifests/", faults.Status(404)), 1, []string{lost}},
		"404 by digest, and the tag exists":            {only(byDigest, faults.Status(404)), 1, []string{lost}},
		"no tag":                                       {only("/manifests/v0.1.0", faults.Status(404)), 1, []string{lost}},
		"a platform is missing":                        {only("/manifests/"+child.Digest.String(), faults.Status(404)), 1, []string{lost}},
		"a layer is missing":                           {only(layer, faults.Status(404)), 1, []string{lost}},
		"a byte of the manifest":                       {only(byDigest, faults.Flips), 1, []string{other}},
		"a byte of a layer":                            {only(layer, faults.Flips), 1, []string{other}},
		"a byte of the evidence":                       {only(evidence, faults.Flips), 1, []string{other}},
		"another image under the tag":                  {moved, 1, []string{other}},
		"an older version under the tag, in two.json":  {moved, 1, []string{"STALE stale"}},
		"a newer version under the tag, in newer.json": {moved, 1, []string{lost, other}}, // it is only planned
		"both versions (twin), in two.json":            {nil, 0, nil},
		"an empty list of referrers":                   {only("/referrers/", nothing), 1, []string{drop}},
		"no list and no tag for it":                    {[]faults.Fault{{Path: "/referrers/", Do: faults.Status(404)}, {Path: "/manifests/sha256-", Do: faults.Status(404)}}, 1, []string{drop}},
		"the evidence is listed, and missing":          {only(evidence, faults.Status(404)), 1, []string{drop}},
		"a login page for everything":                  {only("", login("text/html; charset=utf-8")), 3, []string{silent}},
		"a login page as text for all":                 {only("/lantern/", login("text/plain")), 3, []string{silent}},
		"a login page as JSON for all":                 {only("/lantern/", login("application/vnd.oci.image.index.v1+json")), 3, []string{silent}},
		"a login page for one digest":                  {only(byDigest, login("text/html")), 3, []string{silent}},
		"a login page for the tag":                     {only("/manifests/v0.1.0", login("text/html")), 3, []string{silent}},
		"a login page for a layer":                     {only(layer, login("text/html")), 3, []string{silent}},
		"a login page for the referrers":               {[]faults.Fault{{Path: "/referrers/", Do: login("text/html")}, {Path: "/manifests/sha256-", Do: login("text/html")}}, 3, []string{silent}},
		"half of a manifest":                           {only(byDigest, faults.Resets), 3, []string{silent}},
		"half of a layer":                              {only(layer, faults.CutsChunks), 3, []string{silent}},
		"half of a layer without a length":             {only(layer, faults.EndsEarly), 3, []string{silent}},
		"429":                                          {only("/manifests/", faults.Status(429)), 3, []string{silent}},
		"503":                                          {only("/manifests/", faults.Status(503)), 3, []string{silent}},
		"401":                                          {only("/manifests/", faults.Status(401)), 3, []string{denied}},
		"403":                                          {only("/manifests/", faults.Status(403)), 3, []string{denied}},
		"403 for the tag":                              {only("/manifests/v0.1.0", faults.Status(403)), 3, []string{denied}},
		"403 for the referrers":                        {only("/referrers/", faults.Status(403)), 3, []string{denied}},
		"hangs":                                        {only(byDigest, faults.Hangs), 3, []string{silent}},
		"slow, within the limit":                       {only("/manifests/v0.1.0", faults.Dribbles(time.Millisecond/10)), 0, nil},
		"a redirect to a login page elsewhere":         {only(byDigest, faults.Redirects(elsewhere.URL+"/login.cgi")), 3, []string{silent}},
		"changed, and evidence without answer":         {[]faults.Fault{{Path: "/manifests/v0.1.0", Do: older}, {Path: "/referrers/", Do: faults.Status(503)}}, 1, []string{other, silent}},
	} {
		t.Run(name, func(t *testing.T) {
			if slices.Contains(c.want, silent) { // others wait for a busy machine
				t.Setenv(transport.PatienceVariable, "1s")
			}
			a.t = t
			p.Spoil(c.script...)
			plan := "one.json"
			if strings.HasSuffix(name, ".json") {
				plan = name[strings.LastIndex(name, " ")+1:]
			}
			code, states, v := a.audit(plan)
			slices.Sort(c.want)
			if code != c.code || !slices.Equal(states, c.want) {
				t.Errorf("status %d %q, want %d %q\n%+v", code, states, c.code, c.want, v.Findings)
			}
			if len(c.script) > 0 && p.Spoiled() == 0 {
				t.Error("no request met the fault")
			}
		})
	}
}

// TestMirrorsResumeAndRepair: an interrupted run continues where it ended and asks
// nothing twice, and the plan of the repair gives the mirror what it lacks.
func TestMirrorsResumeAndRepair(t *testing.T) {
	a := openAdmin(t)
	want(t, a.apply(), 0)
	p := faults.Before(t, "http://"+a.Lab.Registry)
	a.behind(p, "one.json", "")

	// The mirror loses the evidence, as those do that copy only tags.
	list, err := a.at("eu/lantern").Referrers(t.Context(), "lantern", a.image.Digest)
	for _, d := range list {
		err = errors.Join(err, a.at("eu/lantern").Delete(t.Context(), "lantern", d.Digest))
	}
	if err != nil {
		t.Fatal(err)
	}
	code, states, _ := a.audit("one.json", "--record", "answers", "--requests", "12")
	if code != 3 {
		t.Errorf("with 12 requests: %d %q", code, states)
	}
	lost := []string{"EVIDENCE_MISSING evidence dropped"}
	for _, dir := range []string{"repair", "repair-again"} {
		if code, states, _ := a.audit("one.json", "--record", "answers", "--repair", dir); code != 1 || !slices.Equal(states, lost) {
			t.Errorf("%d %q", code, states)
		}
	}
	want(t, a.Run(t.Context(), "waybill", "verify", "mirrors", "one.json", "--profile", "profile.yaml", "--repair", "repair"), 2, "is not empty: a plan of an earlier run")
	asked := len(p.Seen())
	code, states, v := a.audit("one.json", "--record", "answers", "--requests", "0")
	if code != 1 || !slices.Equal(states, lost) || len(p.Seen()) != asked || !strings.Contains(strings.Join(v.Sentences, " "), "oldest answer") {
		t.Errorf("from the record: %d %q, %d requests", code, states, len(p.Seen())-asked)
	}
	if code, states, v := a.audit("one.json", "--record", "other", "--requests", "0"); code != 3 || strings.Contains(strings.Join(v.Sentences, " "), "oldest answer") {
		t.Errorf("without a record: %d %q", code, states)
	}
	if err := os.WriteFile(a.Path("plan.json"), a.read("repair/images.json"), 0o644); err != nil {
		t.Fatal(err)
	}
	want(t, a.apply(), 0)
	if code, states, v := a.audit("one.json"); code != 0 {
		t.Errorf("repaired: %d %q %+v", code, states, v.Findings)
	}
}

// TestMirrorsInShards: several workers share a plan and a record, and one more run
// combines their answers without a request. What no worker asked has no answer.
func TestMirrorsInShards(t *testing.T) {
	a := openAdmin(t)
	want(t, a.apply(), 0)
	p := faults.Before(t, "http://"+a.Lab.Registry)
	a.behind(p, "one.json", "")
	plan, err := promotionplan.Parse(a.read("one.json"))
	if err != nil {
		t.Fatal(err)
	}
	work := func(i int) {
		t.Helper()
		said := "OK 1 mirror, shard"
		if (promotionplan.Shard{Index: i, Of: 2}).IsEmpty(plan) {
			said = "has nothing of the plan"
		}
		want(t, a.Run(t.Context(), "waybill", "verify", "mirrors", "one.json", "--profile", "profile.yaml", "--record", "answers", "--shard", fmt.Sprintf("%d/2", i)), 0, said)
	}
	mine := promotionplan.ShardOf(plan.Edges[0].Digest, 2)
	work(1 - mine)
	if code, states, _ := a.audit("one.json", "--record", "answers", "--requests", "0"); code != 3 || !slices.Equal(states, []string{"UNAVAILABLE not answering"}) {
		t.Errorf("before the other worker: %d %q", code, states)
	}
	work(mine)
	asked := len(p.Seen())
	code, states, v := a.audit("one.json", "--record", "answers", "--requests", "0")
	if code != 0 || len(p.Seen()) != asked || v.Counts.Verified < 3 {
		t.Errorf("combined: %d %q, %d requests, %+v", code, states, len(p.Seen())-asked, v.Counts)
	}
	want(t, a.Run(t.Context(), "waybill", "verify", "mirrors", "one.json", "--profile", "profile.yaml", "--shard", "2/2"), 2, "want i/n")

	plan.Routes[0].Destinations = []string{} // nothing is compared
	if err := os.WriteFile(a.Path("none.json"), plan.JSON(), 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, a.Run(t.Context(), "waybill", "verify", "mirrors", "none.json", "--profile", "profile.yaml"), 1, "UNDECIDED 0 mirrors")
}

// TestMirrorsOfFiles: the same with a bucket behind a proxy.
func TestMirrorsOfFiles(t *testing.T) {
	m := openMirror(t)
	a := admin{Scene: m.Scene, t: t}
	p := faults.Before(t, m.Lab.Bucket)
	m.goTo("gs+" + p.URL + "/release/mirror")
	r := m.plan("--output", "json")
	want(t, r, 0)
	m.write("plan.json", r.Stdout)
	apply := func(plan string, code int) {
		t.Helper()
		want(t, m.Run(t.Context(), "waybill", "promote", "apply", plan, "--profile", "files-profile.yaml", "--confirm"), code)
	}
	apply("plan.json", 0)
	const tool, silent, lost, drop, other, denied = "bin/linux/amd64/lantern", "UNAVAILABLE not answering", "MISSING missing", "EVIDENCE_MISSING evidence dropped", "TAMPERED bytes changed", "CREDENTIAL_REFUSED not allowed"
	escaped := strings.ReplaceAll(tool, "/", "%2F")
	file, bundle := []string{escaped + "?"}, []string{escaped + ".sigstore.json?"}
	both := func(paths []string, do faults.Act) (all []faults.Fault) {
		for _, path := range paths {
			all = append(all, faults.Fault{Method: "GET", Path: path, Do: do})
		}
		return all
	}
	for name, c := range map[string]struct {
		script []faults.Fault
		code   int
		want   []string
	}{
		"whole (the twin of each)":             {nil, 0, nil},
		"no file":                              {both(file, faults.Status(404)), 1, []string{lost}},
		"no bundle":                            {both(bundle, faults.Status(404)), 1, []string{drop}},
		"a byte of the file":                   {both(file, faults.Flips), 1, []string{other}},
		"a longer file":                        {both(file, faults.Lengthens), 1, []string{other}},
		"a byte of the bundle":                 {both(bundle, faults.Flips), 1, []string{other}},
		"a login page for all":                 {only("", login("text/html")), 3, []string{silent}},
		"a login page as bytes for all":        {only("", login("application/octet-stream")), 3, []string{silent}},
		"a login page for one file":            {both(file, login("text/html")), 3, []string{silent}},
		"half of a file":                       {both(file, faults.Resets), 3, []string{silent}},
		"half of a file, without a length":     {both(file, faults.EndsEarly), 3, []string{silent}},
		"half of a file in chunks":             {both(file, faults.CutsChunks), 3, []string{silent}},
		"429":                                  {both(file, faults.Status(429)), 3, []string{silent}},
		"503":                                  {both(file, faults.Status(503)), 3, []string{silent}},
		"401":                                  {both(file, faults.Status(401)), 3, []string{denied}},
		"403":                                  {both(file, faults.Status(403)), 3, []string{denied}},
		"hangs":                                {both(file, faults.Hangs), 3, []string{silent}},
		"changed, and a bundle with no answer": {append(both(bundle, faults.Status(503)), both(file, faults.Flips)...), 1, []string{other, silent}},
	} {
		t.Run(name, func(t *testing.T) {
			if slices.Contains(c.want, silent) { // others wait for a busy machine
				t.Setenv(transport.PatienceVariable, "1s")
			}
			a.t = t
			p.Spoil(c.script...)
			code, states, v := a.audit("plan.json")
			if code != c.code || !slices.Equal(states, c.want) {
				t.Errorf("status %d %q, want %d %q\n%+v", code, states, c.code, c.want, v.Findings)
			}
			if len(v.Warnings) > 0 {
				t.Errorf("%+v", v.Warnings)
			}
			if len(c.script) > 0 && p.Spoiled() == 0 {
				t.Errorf("no request met the fault: %+v", p.Seen()[max(0, len(p.Seen())-6):])
			}
		})
	}
	a.t = t
	p.Heal()
	for _, name := range []string{tool + ".sigstore.json", "bin/linux/arm64/lantern"} {
		request(t, http.MethodDelete, m.Lab.Bucket+"/release/mirror/"+name, nil)
	}
	if code, states, v := a.audit("plan.json", "--repair", "repair"); code != 1 || !slices.Equal(states, []string{drop, lost}) {
		t.Errorf("%d %q %+v", code, states, v.Findings)
	}
	apply("repair/files.json", 0)
	if code, states, v := a.audit("plan.json"); code != 0 {
		t.Errorf("repaired: %d %q %+v", code, states, v.Findings)
	}
}

// TestMirrorsOfARelease: the plan of a release with a manifest lists its evidence,
// and gives a mirror what it lost.
func TestMirrorsOfARelease(t *testing.T) {
	n := openNight(t)
	m := mirror{Scene: n.Scene, t: t}
	a := admin{Scene: m.Scene, t: t}
	plans := func(name string) {
		t.Helper()
		r := m.Run(t.Context(), "waybill", "promote", "plan", scene.Version, "--profile", "profile.yaml", "--state", "state", "--to", "release", "-o", "json")
		want(t, r, 0)
		m.write(name, r.Stdout)
	}
	plans("plan.json")
	apply := func(plan string) {
		t.Helper()
		want(t, m.Run(t.Context(), "waybill", "promote", "apply", plan, "--profile", "profile.yaml", "--state", "state", "--confirm"), 0)
	}
	apply("plan.json")
	const lower, higher = "v0.0.9", "v0.2.0\n"
	for _, c := range []struct {
		holds string
		want  []string
	}{
		{"", []string{"MISSING missing"}}, {lower, []string{"STALE stale"}}, {"<html>", []string{"TAMPERED bytes changed"}}, {higher, nil}, {scene.Version, nil},
	} {
		for _, name := range []string{"lantern/stable.txt", "lantern/stable-0.1.txt"} {
			if c.holds != "" {
				m.set("release/"+name, []byte(c.holds))
			}
		}
		if code, states, v := a.audit("plan.json"); (code != 0) != (c.want != nil) || !slices.Equal(states, c.want) {
			t.Errorf("markers that hold %q: %d %q %+v", c.holds, code, states, v.Findings)
		}
	}
	if code, states, v := a.audit("plan.json"); code != 0 || len(v.Warnings) > 0 || v.Counts.Verified < 20 {
		t.Fatalf("%d %q %+v %+v", code, states, v.Findings, v.Warnings)
	}
	image, err := a.at("release/lantern").Resolve(t.Context(), "lantern", scene.Version)
	if err != nil {
		t.Fatal(err)
	}
	list, err := a.at("release/lantern").Referrers(t.Context(), "lantern", image.Digest)
	for _, d := range list {
		err = errors.Join(err, a.at("release/lantern").Delete(t.Context(), "lantern", d.Digest))
	}
	if err != nil {
		t.Fatal(err)
	}
	at := m.Lab.Bucket + "/release/lantern/" + scene.Version + "/"
	request(t, http.MethodDelete, at+"bin/linux/amd64/lantern.spdx.json", nil)
	code, states, v := a.audit("plan.json", "--repair", "repair")
	if code != 1 || !slices.Equal(states, []string{"EVIDENCE_MISSING evidence dropped"}) {
		t.Errorf("%d %q %+v", code, states, v.Findings)
	}
	request(t, http.MethodDelete, at+"bin/linux/amd64/lantern", nil)
	if code, states, v := a.audit("plan.json", "--repair", "repair-both"); code != 1 || !slices.Equal(states, []string{"EVIDENCE_MISSING evidence dropped", "MISSING missing"}) {
		t.Errorf("%d %q %+v", code, states, v.Findings)
	}
	apply("repair-both/release.json")
	if code, states, v := a.audit("plan.json"); code != 0 {
		t.Errorf("repaired: %d %q %+v", code, states, v.Findings)
	}

	// The reference gets revision 2 of the manifest.
	m.write("release.token", m.Lab.Token("release"))
	want(t, m.Run(t.Context(), "waybill", "seal", scene.Version, "--amend", "--reason", "a new log", "--profile", "profile.yaml", "--state", "state", "--identity-token", "release=release.token", "--confirm"), 0, "revision 2")
	first, second := m.get("staging/lantern/"+scene.Version+"/"+releasemanifest.Name), a.read("state/files/"+releasemanifest.Name)
	m.set("staging/lantern/"+scene.Version+"/"+releasemanifest.Name, second)
	plans("plan-2.json")
	for name, c := range map[string]struct {
		plan  string
		holds []byte
		want  []string
	}{
		"revision 1 where the plan has 2":      {"plan-2.json", first, []string{"STALE stale"}},
		"revision 2 where the plan has 2":      {"plan-2.json", second, nil},
		"revision 2 where the plan has 1":      {"plan.json", second, nil},
		"revision 1 with a byte more":          {"plan-2.json", append(slices.Clone(first), 'x'), []string{"TAMPERED bytes changed"}},
		"another statement of the same signer": {"plan-2.json", m.get("staging/lantern/" + scene.Version + "/bin/linux/amd64/lantern.sigstore.json"), []string{"TAMPERED bytes changed"}},
	} {
		m.set("release/lantern/"+scene.Version+"/"+releasemanifest.Name, c.holds)
		if code, states, v := a.audit(c.plan); (code != 0) != (c.want != nil) || !slices.Equal(states, c.want) {
			t.Errorf("%s: %d %q %+v", name, code, states, v.Findings)
		}
	}
}
