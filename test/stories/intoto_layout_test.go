package stories

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/in-toto/in-toto-golang/in_toto"

	"github.com/waybill-release/waybill/test/scene"
)

// TestVerifyLayout: what in-toto's own recorder wrote of two steps, signed in
// either form, is verified and looked into by the built command.
func TestVerifyLayout(t *testing.T) {
	for _, legacy := range []bool{false, true} {
		t.Run(fmt.Sprintf("legacy=%v", legacy), func(t *testing.T) { recordedSteps(t, legacy) })
	}
}

func recordedSteps(t *testing.T, legacy bool) {
	dir := t.TempDir()
	waybill := func(args ...string) scene.Result {
		return (&scene.Scene{Options: scene.Options{Bin: bin, Dir: dir}}).Run(t.Context(), append([]string{"waybill"}, args...)...)
	}
	owner, smith := edwards(t, dir, "owner"), edwards(t, dir, "smith")
	edwards(t, dir, "stranger")
	t.Chdir(dir)
	put := func(name, content string) {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	record := func(step, command string, materials, products []string) {
		link, err := in_toto.InTotoRun(step, "", materials, products, []string{"sh", "-c", command}, smith, []string{"sha256"}, nil, nil, false, false, !legacy)
		if err != nil {
			t.Fatal(err)
		}
		if err := link.Dump(fmt.Sprintf("links/"+in_toto.LinkNameFormat, step, smith.KeyID)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir("links", 0o755); err != nil {
		t.Fatal(err)
	}
	put("lantern.go", "package main")
	record("build", "cp lantern.go lantern", []string{"lantern.go"}, []string{"lantern"})
	record("package", "gzip -nk lantern", []string{"lantern"}, []string{"lantern.gz"})
	signLayout(t, "root.layout", layoutOf(smith), owner, legacy)

	verify := func(more ...string) scene.Result {
		return waybill(append([]string{"verify", "layout", "root.layout", "lantern.gz", "--key", "owner.pub", "--links", "links"}, more...)...)
	}
	want(t, verify("--verbose"), 0, "OK ", "layout owner key sha256:", "signed at an unverified time")
	want(t, verify("-o", "json"), 0, `"role": "layout owner"`)
	want(t, verify("--now", "2099-01-01T00:00:00Z"), 1, "EXPIRED")
	want(t, verify("--key", "stranger.pub"), 1, "SIG_INVALID")
	want(t, verify("--parameter", "A=B"), 2, "USAGE")
	want(t, verify("--parameter", "A"), 2, "want NAME=VALUE")
	want(t, waybill("verify", "layout", "root.layout", "lantern.gz", "--links", "links"), 2, "--key")
	want(t, waybill("verify", "layout", "root.layout", "lantern.gz", "--key", "owner.pub"), 2, "--links")
	want(t, waybill("verify", "layout", "root.layout", "lantern.gz", "--key", "owner.pub", "--links", "nowhere"), 2, "no such directory")
	want(t, waybill("verify", "layout", "root.layout", "lantern", "--key", "owner.pub", "--links", "links"), 1, "NOT_BOUND")
	link := fmt.Sprintf("links/"+in_toto.LinkNameFormat, "package", smith.KeyID)
	want(t, waybill("inspect", "root.layout"), 0, "PARSED, NOT VERIFIED", "in-toto layout", "MATCH lantern WITH PRODUCTS FROM build")
	want(t, waybill("inspect", link), 0, "in-toto link", "sh -c gzip -nk lantern", "products.lantern.gz.sha256")

	// A program of another's between the two steps.
	put("lantern", "package other")
	record("package", "gzip -fnk lantern", []string{"lantern"}, []string{"lantern.gz"})
	want(t, verify(), 1, "LAYOUT_RULE")

	// No command of a layout is ever run.
	put("lantern", "package main")
	record("package", "gzip -fnk lantern", []string{"lantern"}, []string{"lantern.gz"})
	inspected := layoutOf(smith)
	inspected.Inspect = []in_toto.Inspection{{
		Type: "inspection", Run: []string{"touch", "was-run"},
		SupplyChainItem: in_toto.SupplyChainItem{Name: "look", ExpectedMaterials: [][]string{}, ExpectedProducts: [][]string{}},
	}}
	signLayout(t, "root.layout", inspected, owner, legacy)
	want(t, verify(), 1, "LAYOUT_INSPECTION", "--without-inspections")
	want(t, verify("--without-inspections"), 0, "in part", "inspection look")
	if _, err := os.Stat("was-run"); err == nil {
		t.Error("a command of the layout was run")
	}
}

// edwards makes a key, and writes its public half to NAME.pub.
func edwards(t *testing.T, dir, name string) (k in_toto.Key) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".pub"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o644); err != nil {
		t.Fatal(err)
	}
	if der, err = x509.MarshalPKCS8PrivateKey(private); err != nil {
		t.Fatal(err)
	}
	if err := k.LoadKeyReaderDefaults(strings.NewReader(string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))); err != nil {
		t.Fatal(err)
	}
	return k
}

func layoutOf(smith in_toto.Key) in_toto.Layout {
	step := func(name string, materials, products [][]string) in_toto.Step {
		return in_toto.Step{
			Type: "step", Threshold: 1, PubKeys: []string{smith.KeyID}, ExpectedCommand: []string{},
			SupplyChainItem: in_toto.SupplyChainItem{Name: name, ExpectedMaterials: materials, ExpectedProducts: products},
		}
	}
	public := smith
	public.KeyVal.Private = ""
	return in_toto.Layout{
		Type: "layout", Expires: "2098-12-31T00:00:00Z", Keys: map[string]in_toto.Key{smith.KeyID: public}, Inspect: []in_toto.Inspection{},
		Steps: []in_toto.Step{
			step("build", [][]string{{"ALLOW", "lantern.go"}, {"DISALLOW", "*"}}, [][]string{{"CREATE", "lantern"}, {"DISALLOW", "*"}}),
			step("package", [][]string{{"MATCH", "lantern", "WITH", "PRODUCTS", "FROM", "build"}, {"DISALLOW", "*"}}, [][]string{{"CREATE", "lantern.gz"}, {"DISALLOW", "*"}}),
		},
	}
}

func signLayout(t *testing.T, path string, l in_toto.Layout, owner in_toto.Key, legacy bool) {
	t.Helper()
	var signed in_toto.Metadata = &in_toto.Metablock{Signed: l}
	if !legacy {
		envelope := &in_toto.Envelope{}
		if err := envelope.SetPayload(l); err != nil {
			t.Fatal(err)
		}
		signed = envelope
	}
	if err := signed.Sign(owner); err != nil {
		t.Fatal(err)
	}
	if err := signed.Dump(path); err != nil {
		t.Fatal(err)
	}
}
