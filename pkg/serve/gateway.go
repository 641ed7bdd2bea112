// Package serve is the gate as an HTTP service: it decides whether an image may
// be promoted to a destination.
//
//	POST /v1/decisions   {"decisions": [{"verb": "promote", "image": "HOST/PATH@sha256:…", "to": "HOST/PATH", …}]}
//
//	POST /v1/cluster/images, /v1/cluster/trace   as a webhook of a Kubernetes API server
//
// The answer is the same verdict that every command prints. Callers
// authenticate with an identity token or a client certificate, and need a grant
// in the book of callers (package caller). The status is that of the worst
// answer: 200 accepted, 403 refused, 422 malformed, 503 not decided, with
// Retry-After.
//
// Policy, trust root, known defects and callers are one value, the [Basis]. A
// reload replaces it completely or, if it cannot be read, keeps the last one
// and reports that. A decision is cached until the basis changes, for some
// minutes at most, by digest, never by tag; an unavailable decision is not
// cached.
//
// A caller with exceptions signed by the officer uses the verb override and
// sends them along. Each token is valid for one such request: its use is
// recorded in a place that all replicas share (see [Ledger]).
//
// Features that others switch can relax requirements of the policy, as far as
// it permits (see [Features]). They are read periodically, and each question is
// judged by the effective policy for its destination. While their states are
// unknown, decisions are unavailable.
//
// Each decision and each rejected request is a line of the record, chained by
// the digest of the line before; [RecordCheck] verifies a log. GET /v1/audit
// returns the last decisions and the end of the record to auditors. A decision
// that cannot be recorded is not answered.
//
// A [Server] is an [http.Handler]; it opens no listener.
//
// Other projects should not import this package: it changes without notice.
package serve

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	featuretransition "github.com/waybill-release/waybill/attestations/feature-transition/v1"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/govern/feature/componentbase"
	"github.com/waybill-release/waybill/pkg/serve/caller"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Basis is the data that decisions depend on.
type Basis struct {
	// PolicyRequest is the question about any image, from the profile: see
	// [gate.Gate.One].
	gate.PolicyRequest
	Callers caller.Book
	// Summaries configures signed summaries of accepted promotions; zero for
	// none.
	Summaries Summaries
	// Defects is the digest of the known defects; zero for none.
	Defects digest.Digest
	// RootFrom is the time at which the trust root was read.
	RootFrom time.Time
}

// digest identifies the basis: cached decisions of another basis are not used.
func (b Basis) digest() digest.Digest {
	all := b.Policy.Digest().String() + b.Verifier.Root().Digest().String() + b.Defects.String() + b.Summaries.String()
	return digest.Of(digest.SHA256, []byte(all))
}

// World is how a server reaches the outside.
type World struct {
	// Load reads the basis again.
	Load func(ctx context.Context) (Basis, error)
	// Open opens a registry by its host.
	Open func(host string) (*registry.Remote, error)
	// Keys fetches the keys of an issuer of the book; they are cached for a
	// while.
	Keys  func(ctx context.Context, issuer string) (caller.Keys, error)
	Clock func() time.Time
	// Version of the program, for the status page.
	Version string
	// Log receives messages about the service itself.
	Log *slog.Logger
	// Record receives a line for each decision and for each rejected request,
	// as [api.Line]. A decision that cannot be written is not answered.
	Record io.Writer
	// Approvals is where used override tokens are recorded; without it there
	// are no overrides.
	Approvals Ledger
	// Cluster is how reviews of a Kubernetes API server are answered; nil for not
	// at all.
	Cluster *ClusterUse
	// Gate holds the feature gates of the program; nil for Waybill's defaults.
	Gate *componentbase.Gate
	// Features are the features that others switch; nil for none: then the
	// policy applies as written.
	Features *Features
	// Proxy is the registry that the service is in front of; nil for none.
	Proxy *Proxy
}

// Limits are the limits of a server. A zero field means its default.
type Limits struct {
	// Deadline is the longest time for a request: a decision that takes longer
	// is unavailable. Default 8 s, so that admission controllers, which wait 10
	// s, get an answer.
	Deadline time.Duration
	// AtOnce is how many requests are processed concurrently, and Queue how
	// many more may wait. Defaults 256 and 1000. One caller gets at most half
	// of both, and one registry half of the concurrent decisions.
	AtOnce, Queue int
	// PerCaller is how many decisions one caller may request per second over
	// time, with bursts of ten times as many. Default 100.
	PerCaller int
	// Remember is how long a decision is cached. Default 5 minutes.
	Remember time.Duration
	// Body is the size limit of a request. Default 1 MiB.
	Body int64
	// Parting is how long the server continues after a request to end: it
	// reports not ready, and closes each connection after its answer, so that
	// callers move to another replica. Default 3 s.
	Parting time.Duration
	// Follow is the time between two readings of the features. Default 30 s.
	Follow time.Duration
}

// AtOnce is the default of [Limits.AtOnce].
const AtOnce = 256

func (l Limits) withDefaults() Limits {
	l.AtOnce, l.Queue, l.PerCaller = cmp.Or(l.AtOnce, AtOnce), cmp.Or(l.Queue, 1000), cmp.Or(l.PerCaller, 100)
	l.Deadline, l.Remember = cmp.Or(l.Deadline, 8*time.Second), cmp.Or(l.Remember, 5*time.Minute)
	l.Parting, l.Follow, l.Body = cmp.Or(l.Parting, 3*time.Second), cmp.Or(l.Follow, 30*time.Second), cmp.Or(l.Body, 1<<20)
	return l
}

// Server is the gate as an HTTP handler.
type Server struct {
	world  *World
	limits Limits
	mux    *http.ServeMux
	flags  *flags
	// started is when the server was made.
	started time.Time

	admission admission
	decider   decider
	features  featureReader
	records   records
	proxying  proxying

	basis    atomic.Pointer[standing]
	reload   sync.Mutex    // held while the basis is read
	reloaded chan struct{} // is notified of each new basis
	draining atomic.Bool
}

// standing is a basis in force.
type standing struct {
	Basis
	digest digest.Digest
	since  time.Time
	// switched is the state of the features; nil if none are used.
	switched *switched
	// tokens are the verified tokens of this basis.
	tokens *recognised
	// failed is why the newest basis could not be read, and when.
	failed   error
	failedAt time.Time
}

// New makes a server. It fails if no basis can be read.
func New(ctx context.Context, w World, l Limits) (*Server, error) {
	if w.Load == nil || w.Open == nil || w.Keys == nil || w.Clock == nil || w.Log == nil || w.Record == nil {
		return nil, errors.New("preparing the gate: Load, Open, Keys, Clock, Log and Record are required")
	}
	l = l.withDefaults()
	flags, err := newFlags(w.Gate)
	if err != nil {
		return nil, err
	}
	s := &Server{
		world: &w, limits: l, flags: flags, reloaded: make(chan struct{}, 1), started: w.Clock(),
		admission: admission{
			world: &w, limits: l, keys: keyring{fetch: w.Keys, clock: w.Clock, all: map[string]*issuerKeys{}}, rates: rates{perSecond: l.PerCaller, clock: w.Clock}, slots: newSlots(l.AtOnce, l.Queue),
			waiting: shares{most: (l.AtOnce + l.Queue) / 2}, reading: shares{most: l.AtOnce / 8}, bodies: shares{most: min(bodyRoom, l.AtOnce)},
		},
		decider: decider{
			world: &w, limits: l, flags: flags, open: remotes{open: w.Open}, judging: make(chan struct{}, l.AtOnce),
			callers: shares{most: l.AtOnce / 2}, hosts: shares{most: l.AtOnce / 2},
		},
		features: featureReader{world: &w, flags: flags, every: l.Follow, highest: map[string]featuretransition.State{}},
		records:  records{world: &w, record: &record{out: w.Record, clock: w.Clock, turn: make(chan struct{}, 1)}},
		proxying: proxying{attaching: shares{most: 1}, key: []byte(rand.Text()), window: readTime},
	}
	s.decider.features, s.features.tally = &s.features, &s.records.tally
	if err := s.Reload(ctx); err != nil {
		return nil, err
	}
	s.mux = s.routes()
	return s, nil
}

// Reload reads the basis again. If that fails, the last one stays in force, and
// the status page shows the error until a reload succeeds.
func (s *Server) Reload(ctx context.Context) error {
	s.reload.Lock()
	defer s.reload.Unlock()
	next, err := s.world.Load(ctx)
	if err == nil {
		err = errors.Join(next.Policy.Life(s.world.Clock()), next.Policy.Root(next.Verifier.Root().IsLab(), next.Verifier.Root().Date(), s.world.Clock()))
	}
	var features *switched
	if err == nil {
		features, err = s.features.next(ctx, s.basis.Load(), next)
	}
	now := s.world.Clock()
	if err != nil {
		if last := s.basis.Load(); last != nil {
			kept := *last
			kept.failed, kept.failedAt = err, now
			s.basis.Store(&kept)
			s.world.Log.ErrorContext(ctx, "reload failed; the previous basis stays in force", "error", err.Error(), "code", string(verdict.FindingOf("basis", err).Code))
		}
		s.records.tally.ended(&s.records.tally.reloads, false)
		return err
	}
	s.basis.Store(&standing{Basis: next, digest: next.digest(), since: now, switched: features, tokens: &recognised{}})
	s.records.tally.ended(&s.records.tally.reloads, true)
	s.world.Log.InfoContext(ctx, "basis in force", "policy", next.Policy.Digest().String(), "trust_root", next.Verifier.Root().Digest().String())
	return nil
}

// Follow reads the features again. A changed state applies from then on; if
// reading fails, the last states stay valid for some minutes.
func (s *Server) Follow(ctx context.Context) error {
	if s.world.Features == nil {
		return nil
	}
	s.reload.Lock()
	defer s.reload.Unlock()
	next := *s.basis.Load()
	next.switched = s.features.read(ctx, next.Basis, next.switched)
	s.basis.Store(&next)
	return next.switched.failed
}

// Drain makes the server report that it is not ready, so that it gets no new
// requests. Requests that still arrive are answered.
func (s *Server) Drain() { s.draining.Store(true) }

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.draining.Load() || isOld(r, s.world.Clock()) {
		w.Header().Set("Connection", "close")
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if len(r.TransferEncoding) > 0 { // a proxy may see another end of the request, and then another request after it
		w.Header().Set("Connection", "close")
	}
	if r.URL.RawPath != "" || strings.TrimSuffix(r.URL.Path, "/") != strings.TrimSuffix(path.Clean(r.URL.Path), "/") { // no alternative spellings of a path
		http.NotFound(w, r)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// remotes are the opened registries, one for each host.
type remotes struct {
	open func(host string) (*registry.Remote, error)
	mu   sync.Mutex // guards all fields
	all  map[string]*registry.Remote
}

// maxRemotes bounds them, because callers may name any registry.
const maxRemotes = 1000

func (r *remotes) registryAt(host string) (*registry.Remote, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := r.all[host]; at != nil {
		return at, nil
	}
	at, err := r.open(host)
	if err != nil {
		return nil, err
	}
	if r.all == nil || len(r.all) >= maxRemotes {
		r.all = map[string]*registry.Remote{}
	}
	r.all[host] = at
	return at, nil
}
