// Package lab is the world a release lives in, whole and small, on loopback:
// an OIDC issuer, Fulcio with a CT log, a Rekor v2 and a Rekor v1 log, an RFC
// 3161 timestamp authority, a TUF repository, an OCI registry, a bucket server, a Go
// module proxy and the API of GitHub Releases. Everything runs in the calling
// process and starts in well under 100 ms.
//
// Nothing here is safe. Anyone who reaches the issuer is anyone they like, so
// the lab listens on loopback only, and every certificate authority carries
// [Mark] in its subject: a policy for real releases refuses it by name.
//
// What is upstream server code and what is ours is listed in README.md.
//
//	func TestRelease(t *testing.T) {
//		l := lab.New(t)
//		token := l.Token(lab.RoleRelease) // an identity token, RS256
//		_ = l.SigningConfig               // where to sign
//		_ = l.TrustedRoot                 // what to verify against
//	}
package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/testing/releases"
	"github.com/waybill-release/waybill/test/lab/bucket"
	"github.com/waybill-release/waybill/test/lab/modules"
	"github.com/waybill-release/waybill/test/lab/registry"
)

// Mark is in the subject of every authority of every lab.
const Mark = "INSECURE LAB"

// Options says how a lab starts. The zero value is a lab on free ports of
// 127.0.0.1 that leaves nothing behind.
type Options struct {
	// Dir keeps keys, ports, log, registry and buckets: a lab started again on
	// the same directory is the same world, and old signatures verify. Empty
	// means a temporary directory, removed by Close.
	Dir string
	// Address is the loopback address to listen on; default 127.0.0.1. Any
	// other kind of address is refused.
	Address string
	// Clock is the time of the issuer, the CT log, the Rekor v1 log and the
	// TUF repository; default time.Now. Fulcio and the timestamp authority are upstream code
	// that reads the real clock.
	Clock func() time.Time
	// Buckets are made at the start; default staging, release and mirror.
	Buckets []string
	// Second adds a transparency log and a timestamp authority of another
	// operator. The signing configuration names them, and asks for any one.
	Second bool
	// Issuers are URLs of other issuers of e-mail identities, whose tokens Fulcio
	// accepts, too. They must answer when the lab starts.
	Issuers []string
	// Clusters are URLs of issuers of Kubernetes clusters, of whose service accounts
	// Fulcio accepts the tokens. They must answer when the lab starts.
	Clusters []string
}

// URLs says where each service of a lab is.
type URLs struct {
	Issuer   string `json:"issuer"`
	Fulcio   string `json:"fulcio"`
	CT       string `json:"ct"`
	Rekor    string `json:"rekor"`
	RekorV1  string `json:"rekorV1"` // for older clients; not in the signing configuration
	TSA      string `json:"tsa"`     // the full URL of the timestamp endpoint
	TUF      string `json:"tuf"`
	Registry string `json:"registry"`         // host:port, as image references want it
	Bucket   string `json:"bucket"`           // base URL: <Bucket>/<bucket>/<object>
	Modules  string `json:"modules"`          // a Go module proxy
	GitHub   string `json:"github"`           // the API of GitHub Releases, below /api/v3
	Rekor2   string `json:"rekor2,omitempty"` // with [Options.Second]
	TSA2     string `json:"tsa2,omitempty"`
}

// Lab is a running lab. Close ends it.
type Lab struct {
	URLs

	// TrustedRoot is what to verify against: trusted_root.json.
	TrustedRoot []byte
	// SigningConfig says where to sign: signing_config.v0.2.json.
	SigningConfig []byte
	// TUFRoot is the root metadata to initialise a TUF client with.
	TUFRoot []byte

	dir      string
	clock    func() time.Time
	issuer   *issuer
	rekor    *rekor
	rekorV1  *rekorV1
	bucket   *bucket.Server
	modules  *modules.Server
	github   *releases.Server
	attested *attestations
	servers  *servers
	inside   func() // makes Fulcio reach the CT log by a call, once
	closers  []func() error
}

// Start starts a lab. ctx bounds the start only; [Lab.Close] ends the lab.
func Start(ctx context.Context, o Options) (*Lab, error) {
	host, err := loopback(o.Address)
	if err != nil {
		return nil, err
	}
	l := &Lab{dir: o.Dir, clock: o.Clock}
	if l.clock == nil {
		l.clock = time.Now
	}
	if l.dir == "" {
		if l.dir, err = os.MkdirTemp("", "waybill-lab-"); err != nil {
			return nil, fmt.Errorf("making the lab's directory: %w", err)
		}
		l.closers = append(l.closers, func() error { return os.RemoveAll(l.dir) })
	}
	if err := l.start(ctx, host, o); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the lab: %w", err), l.Close())
	}
	return l, nil
}

// start brings the services up in order of need: the issuer before Fulcio,
// which reads its discovery page; the trusted root and TUF when all keys exist.
func (l *Lab) start(ctx context.Context, host string, o Options) error {
	st, err := openState(l.dir)
	if err != nil {
		return err
	}
	if l.servers, err = listen(host, st.Ports); err != nil {
		return err
	}
	l.URLs = l.servers.urls()
	if !o.Second {
		l.Rekor2, l.TSA2 = "", ""
	}
	if err := l.startSigstore(ctx, st, o); err != nil {
		return err
	}
	if err := l.startStorage(o.Buckets); err != nil {
		return err
	}
	st.Ports = l.servers.ports()
	return st.save()
}

func (l *Lab) startSigstore(ctx context.Context, st *state, o Options) (err error) {
	if l.issuer, err = newIssuer(l.Issuer, st, l.clock); err != nil {
		return err
	}
	l.servers.serve(serviceIssuer, l.issuer)
	ct, err := newCTLog(st, l.clock)
	if err != nil {
		return err
	}
	l.servers.serve(serviceCT, ct)
	fulcio, err := newFulcio(ctx, st, l.URLs, ct, o)
	if err != nil {
		return err
	}
	l.closers = append(l.closers, fulcio.close)
	l.servers.serve(serviceFulcio, fulcio)
	l.inside = sync.OnceFunc(func() { fulcio.transport.RegisterProtocol("http", called{ct}) })
	if l.rekor, err = newRekor(ctx, st, "rekor", rekorOrigin); err != nil {
		return err
	}
	l.closers = append(l.closers, l.rekor.close)
	l.servers.serve(serviceRekor, l.rekor)
	if l.rekorV1, err = newRekorV1(st, l.clock); err != nil {
		return err
	}
	l.closers = append(l.closers, l.rekorV1.close)
	l.servers.serve(serviceRekorV1, l.rekorV1)
	tsa, err := newTSA(st)
	if err != nil {
		return err
	}
	l.servers.serve(serviceTSA, tsa)
	p := parties{ct: ct, fulcio: fulcio, rekor: l.rekor, rekorV1: l.rekorV1, tsa: tsa}
	if p.second, err = l.startSecond(ctx, st); err != nil {
		return err
	}
	return l.startTrust(st, p)
}

// startTrust composes what verifiers need and publishes it through TUF.
func (l *Lab) startTrust(st *state, p parties) (err error) {
	if l.TrustedRoot, err = trustedRoot(l.URLs, p); err != nil {
		return err
	}
	if l.SigningConfig, err = signingConfig(l.URLs, Signing{}); err != nil {
		return err
	}
	repo, err := newTUF(st, l.clock, map[string][]byte{
		"trusted_root.json":        l.TrustedRoot,
		"signing_config.v0.2.json": l.SigningConfig,
	})
	if err != nil {
		return err
	}
	l.TUFRoot = repo.root
	l.servers.serve(serviceTUF, repo)
	return nil
}

func (l *Lab) startStorage(buckets []string) error {
	reg, err := registry.New(filepath.Join(l.dir, "state", "registry"))
	if err != nil {
		return err
	}
	l.servers.serve(serviceRegistry, reg)
	if l.bucket, err = bucket.New(filepath.Join(l.dir, "state", "bucket")); err != nil {
		return err
	}
	l.closers = append(l.closers, l.bucket.Close)
	if len(buckets) == 0 {
		buckets = []string{"staging", "release", "mirror"}
	}
	for _, name := range buckets {
		if err := l.bucket.Make(name); err != nil {
			return err
		}
	}
	l.servers.serve(serviceBucket, l.bucket)
	if l.modules, err = modules.New(); err != nil {
		return err
	}
	l.servers.serve(serviceModules, l.modules)
	if l.github, err = releases.New(filepath.Join(l.dir, "state", "github")); err != nil {
		return err
	}
	l.github.Objects = "http://" + l.servers.address(serviceObjects)
	l.github.Change("lab/lantern", func(*releases.Repository) {})
	l.attested = &attestations{next: l.github, by: map[string][]attested{}}
	l.servers.serve(serviceGitHub, l.attested)
	l.servers.serve(serviceObjects, l.github)
	return nil
}

// Close stops every service and waits for them. It removes the directory of a
// lab that was started without one. A second Close does nothing.
func (l *Lab) Close() error {
	var errs []error
	if l.servers != nil {
		errs = append(errs, l.servers.close())
		l.servers = nil
	}
	for i := len(l.closers) - 1; i >= 0; i-- {
		errs = append(errs, l.closers[i]())
	}
	l.closers = nil
	return errors.Join(errs...)
}

// Stop stops one service and leaves the rest running, so that a test can see
// what happens when that part of the world does not answer. name is the
// service's name in [URLs]' JSON. It panics on a name that is no service.
func (l *Lab) Stop(name string) error { return l.servers.stop(name) }

// MakeBucket makes an empty bucket.
func (l *Lab) MakeBucket(name string) error { return l.bucket.Make(name) }

// Releases is the service of GitHub Releases, to make and attack repositories.
func (l *Lab) Releases() *releases.Server { return l.github }

// PutModule changes an answer of the module proxy: see [modules.Server.Put].
func (l *Lab) PutModule(name string, body []byte) { l.modules.Put(name, body) }

// Dir is where the lab keeps its state.
func (l *Lab) Dir() string { return l.dir }
