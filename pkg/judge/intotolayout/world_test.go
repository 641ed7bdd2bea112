package intotolayout_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/in-toto/in-toto-golang/in_toto"
	"github.com/secure-systems-lab/go-securesystemslib/cjson"

	"github.com/waybill-release/waybill/pkg/judge/intotolayout"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// pair is a key with which somebody signs.
type pair struct {
	in_toto.Key
	signer crypto.Signer
}

// people are an owner and three who do steps, each with another kind of key.
var people = sync.OnceValue(func() map[string]pair {
	p256, err1 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, edwards, err2 := ed25519.GenerateKey(rand.Reader)
	rsa2048, err3 := rsa.GenerateKey(rand.Reader, 2048)
	p384, err4 := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	stranger, err5 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	for _, err := range []error{err1, err2, err3, err4, err5} {
		if err != nil {
			panic(err)
		}
	}
	out := map[string]pair{}
	for name, signer := range map[string]crypto.Signer{"owner": p256, "alice": edwards, "bob": rsa2048, "carol": p384, "stranger": stranger} {
		out[name] = pairOf(signer)
	}
	return out
})

func pairOf(signer crypto.Signer) pair {
	der, err := x509.MarshalPKIXPublicKey(signer.Public())
	if err != nil {
		panic(err)
	}
	p := pair{signer: signer}
	if err := p.LoadKeyReaderDefaults(strings.NewReader(string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))); err != nil {
		panic(err)
	}
	return p
}

// sign signs as the library does.
func (p pair) sign(t testing.TB, text []byte) []byte {
	t.Helper()
	message, opts := text, crypto.SignerOpts(crypto.Hash(0))
	switch key := p.signer.(type) {
	case *rsa.PrivateKey:
		opts = &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: crypto.SHA256}
	case *ecdsa.PrivateKey:
		opts = crypto.SHA256
		if key.Curve == elliptic.P384() {
			opts = crypto.SHA384
		}
	}
	if h := opts.HashFunc(); h != 0 {
		hash := h.New()
		hash.Write(text)
		message = hash.Sum(nil)
	}
	sig, err := p.signer.Sign(rand.Reader, message, opts)
	if err != nil {
		t.Fatal(err)
	}
	return sig
}

// signed writes a link or layout in one of the two forms.
func signed(t testing.TB, legacy bool, what any, by ...pair) []byte {
	t.Helper()
	payload, err := json.Marshal(what)
	if err != nil {
		t.Fatal(err)
	}
	type signature struct {
		KeyID string `json:"keyid"`
		Sig   string `json:"sig"`
	}
	list := []signature{}
	var out any
	if legacy {
		canonical, err := cjson.EncodeCanonical(what)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range by {
			list = append(list, signature{p.KeyID, hex.EncodeToString(p.sign(t, canonical))})
		}
		out = map[string]any{"signed": json.RawMessage(payload), "signatures": list}
	} else {
		pae := fmt.Sprintf("DSSEv1 %d %s %d %s", len(in_toto.PayloadType), in_toto.PayloadType, len(payload), payload)
		for _, p := range by {
			list = append(list, signature{p.KeyID, base64.StdEncoding.EncodeToString(p.sign(t, []byte(pae)))})
		}
		out = map[string]any{"payloadType": in_toto.PayloadType, "payload": base64.StdEncoding.EncodeToString(payload), "signatures": list}
	}
	raw, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func object(content string) in_toto.HashObj {
	return in_toto.HashObj{"sha256": digest.Of(digest.SHA256, []byte(content)).Hex()}
}

func file(name, content string) intotolayout.File {
	return intotolayout.File{Name: name, Digests: digest.Set{
		SHA256: digest.Of(digest.SHA256, []byte(content)), SHA512: digest.Of(digest.SHA512, []byte(content)),
	}}
}

func link(name string, materials, products map[string]in_toto.HashObj) in_toto.Link {
	return in_toto.Link{
		Type: "link", Name: name, Materials: materials, Products: products,
		ByProducts: map[string]any{"return-value": 0}, Command: []string{"make", name}, Environment: map[string]any{},
	}
}

type artifacts = map[string]in_toto.HashObj

// one is a link and who signed it.
type one struct {
	link any // a link, or the bytes of a layout
	by   pair
	name string // of the file, where it is not the one that it should have
}

// world is a layout of two steps, its links, and what came out.
type world struct {
	layout in_toto.Layout
	owners []pair // who signed the layout
	asked  []pair // whose signature is asked for
	links  []one
	more   fstest.MapFS
	files  []intotolayout.File
	req    intotolayout.Request
	edit   func(raw []byte) []byte // of the layout, after it was signed
}

func newWorld() *world {
	p := people()
	w := &world{owners: []pair{p["owner"]}, asked: []pair{p["owner"]}, more: fstest.MapFS{}}
	w.layout = in_toto.Layout{
		Type: "layout", Expires: "2027-01-01T00:00:00Z", Readme: "two steps", Inspect: []in_toto.Inspection{},
		Keys: map[string]in_toto.Key{},
		Steps: []in_toto.Step{
			{
				Type: "step", Threshold: 1, PubKeys: []string{p["alice"].KeyID}, ExpectedCommand: []string{"make", "build"},
				SupplyChainItem: in_toto.SupplyChainItem{
					Name: "build", ExpectedMaterials: [][]string{{"ALLOW", "src/*"}, {"DISALLOW", "*"}},
					ExpectedProducts: [][]string{{"CREATE", "lantern"}, {"ALLOW", "src/*"}, {"DISALLOW", "*"}},
				},
			},
			{
				Type: "step", Threshold: 1, PubKeys: []string{p["bob"].KeyID, p["carol"].KeyID}, ExpectedCommand: []string{},
				SupplyChainItem: in_toto.SupplyChainItem{
					Name: "package", ExpectedMaterials: [][]string{{"MATCH", "lantern", "WITH", "PRODUCTS", "FROM", "build"}, {"DISALLOW", "*"}},
					ExpectedProducts: [][]string{{"CREATE", "lantern.tar.gz"}, {"DISALLOW", "*"}},
				},
			},
		},
	}
	for _, name := range []string{"alice", "bob", "carol"} {
		w.layout.Keys[p[name].KeyID] = p[name].Key
	}
	w.links = []one{
		{link: link("build", artifacts{"src/main.go": object("source")}, artifacts{"src/main.go": object("source"), "lantern": object("program")}), by: p["alice"]},
		{link: link("package", artifacts{"lantern": object("program")}, artifacts{"lantern.tar.gz": object("archive")}), by: p["bob"]},
	}
	w.files = []intotolayout.File{file("lantern.tar.gz", "archive")}
	w.req.Now = noon
	return w
}

// step is a step of the layout, to be changed.
func (w *world) step(i int) *in_toto.Step { return &w.layout.Steps[i] }

// set changes a link.
func (w *world) set(i int, change func(*in_toto.Link)) {
	l := w.links[i].link.(in_toto.Link)
	change(&l)
	w.links[i].link = l
}

// request signs everything.
func (w *world) request(t testing.TB, legacy bool) intotolayout.Request {
	t.Helper()
	directory := fstest.MapFS{}
	for _, l := range w.links {
		name, _ := l.link.(in_toto.Link)
		path := l.name
		if path == "" {
			path = fmt.Sprintf(in_toto.LinkNameFormat, name.Name, l.by.KeyID)
		}
		raw, is := l.link.([]byte)
		if !is {
			raw = signed(t, legacy, l.link, l.by)
		}
		directory[path] = &fstest.MapFile{Data: raw, Mode: 0o644}
	}
	for name, f := range w.more {
		directory[name] = f
	}
	r := w.req
	r.Layout = signed(t, legacy, w.layout, w.owners...)
	if w.edit != nil {
		r.Layout = w.edit(r.Layout)
	}
	r.Links, r.Files = directory, w.files
	for _, p := range w.asked {
		r.Keys = append(r.Keys, p.signer.Public())
	}
	return r
}
