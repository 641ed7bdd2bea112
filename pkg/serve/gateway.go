// Package serve is the gate as a service: it answers over HTTP whether an
// image may go somewhere.
//
//	POST /v1/decisions   {"decisions": [{"verb": "promote", "image": "HOST/PATH@sha256:…", "to": "HOST/PATH", …}]}
//
// The answer is the same verdict that every command prints. Who asks shows an
// identity token or a certificate, and is answered only what the book of
// callers grants (package caller). The status is that of the worst answer: 200
// accepted, 403 refused, 422 malformed, 503 nothing was decided, with
// Retry-After.
//
// What decisions rest on, policy, trust root, known defects and callers, is one
// value, the [Basis]. A reload replaces it whole or, if it cannot be read,
// keeps the last one and says so. A decision is remembered for as long as the
// basis stands and for some minutes at most, by digest, never by tag; what
// could not be decided is not remembered.
//
// Who has the officer's exceptions asks with the verb override and sends them
// along. Each token is good for one such request: that it was used is written,
// if it is not there yet, into a place that all replicas share (see [Ledger]).
//
// Features that others switch can lower what the policy asks, as far as it lets
// them (see [Features]): they are read now and then, and a question is judged by
// the policy as it counts where the image is to go. Where it is not known how
// they stand nothing is decided.
//
// Each decision, and each request that was not let in, is a line of the record,
// which has the digest of the line before; [RecordCheck] holds a log to that.
// GET /v1/audit tells auditors the last decisions and where the record ends.
// What the record does not take is not answered.
//
// A [Server] is an [http.Handler]. It opens no listener, and ends when the
// requests that it has have ended.
package serve

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"path"
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

// Basis is what decisions rest on.
type Basis struct {
	// PolicyRequest is the question about any image, as the profile has it: see
	// [gate.Gate.One].
	gate.PolicyRequest
	Callers caller.Book
	// Summaries is how what is accepted is vouched for; zero for not at all.
	Summaries Summaries
	// Defects is the digest of what is known of defects; zero for nothing.
	Defects digest.Digest
	// RootFrom is the time at which the trust root was read.
	RootFrom time.Time
}

// digest names the basis: a decision of another is none of this one.
func (b Basis) digest() digest.Digest {
	all := b.Policy.Digest().String() + b.Verifier.Root().Digest().String() + b.Defects.String() + b.Summaries.String()
	return digest.Of(digest.SHA256, []byte(all))
}

// World is how a server reaches what is outside of it.
type World struct {
	// Load reads the basis anew.
	Load func(ctx context.Context) (Basis, error)
	// Open opens a registry by its host.
	Open func(host string) (*registry.Remote, error)
	// Keys brings the keys of an issuer of the book, which are kept for a while.
	Keys  func(ctx context.Context, issuer string) (caller.Keys, error)
	Clock func() time.Time
	// Log gets what is said about the service itself.
	Log *slog.Logger
	// Record gets a line for each decision and for each request that was not let
	// in, as [api.Line] has it. What it does not take is not answered.
	Record io.Writer
	// Approvals is where used approvals are written; without it nothing is
	// overridden.
	Approvals Ledger
	// Gate is the feature gates of the program; nil for the defaults of Waybill.
	Gate *componentbase.Gate
	// Features is how it goes by features that others switch; nil for not at all:
	// then the policy counts as it is written.
	Features *Features
}

// Limits are what a server bears. A zero field is its default.
type Limits struct {
	// Deadline is when a request is answered at the latest: what is not decided
	// by then is unavailable. Default 8 s, so that admission controllers, which
	// wait 10 s, are answered.
	Deadline time.Duration
	// AtOnce is how many requests are dealt with at a time, and Queue how many
	// more may wait. Defaults 256 and 1000. One caller has half of both at most,
	// and one registry half of the decisions that are made at a time.
	AtOnce, Queue int
	// PerCaller is how many decisions one caller may ask for in a second, for a
	// while; ten times as many at once. Default 100.
	PerCaller int
	// Remember is for how long a decision is remembered. Default 5 minutes.
	Remember time.Duration
	// Body is how large a request may be. Default 1 MiB.
	Body int64
	// Parting is how long the server goes on when it is told to end: it says that
	// it is not ready, and has each connection closed after its answer, so that
	// callers turn to another. Default 3 s.
	Parting time.Duration
	// Follow is the time between two readings of the features. Default 30 s.
	Follow time.Duration
}

// AtOnce is how many requests are dealt with at a time, unless [Limits.AtOnce]
// says otherwise.
const AtOnce = 256

func (l Limits) withDefaults() Limits {
	pick := func(p *int, n int) {
		if *p == 0 {
			*p = n
		}
	}
	pick(&l.AtOnce, AtOnce)
	pick(&l.Queue, 1000)
	pick(&l.PerCaller, 100)
	if l.Deadline == 0 {
		l.Deadline = 8 * time.Second
	}
	if l.Remember == 0 {
		l.Remember = 5 * time.Minute
	}
	if l.Parting == 0 {
		l.Parting = 3 * time.Second
	}
	if l.Follow == 0 {
		l.Follow = 30 * time.Second
	}
	if l.Body == 0 {
		l.Body = 1 << 20
	}
	return l
}

// Server answers.
type Server struct {
	world  *World
	limits Limits
	mux    *http.ServeMux
	flags  *flags

	admission admission
	decider   decider
	features  featureReader
	records   records

	basis    atomic.Pointer[standing]
	reload   sync.Mutex    // held while the basis is read
	reloaded chan struct{} // is told when the basis was read anew
	draining atomic.Bool
}

// standing is a basis in force.
type standing struct {
	Basis
	digest digest.Digest
	since  time.Time
	// switched is how the features stand; nil where none are gone by.
	switched *switched
	// tokens are those that the callers of this basis were recognised by.
	tokens *recognised
	// failed is why the newest basis could not be read, and when.
	failed   error
	failedAt time.Time
}

// New makes a server. It does not begin without a basis.
func New(ctx context.Context, w World, l Limits) (*Server, error) {
	if w.Load == nil || w.Open == nil || w.Keys == nil || w.Clock == nil || w.Log == nil || w.Record == nil {
		return nil, errors.New("preparing the gate: load, open, keys, clock, log and record are required")
	}
	l = l.withDefaults()
	flags, err := newFlags(w.Gate)
	if err != nil {
		return nil, err
	}
	s := &Server{
		world: &w, limits: l, flags: flags, reloaded: make(chan struct{}, 1),
		admission: admission{
			world: &w, limits: l, keys: keyring{fetch: w.Keys, clock: w.Clock}, rates: rates{perSecond: l.PerCaller, clock: w.Clock}, slots: newSlots(l.AtOnce, l.Queue),
			waiting: shares{most: (l.AtOnce + l.Queue) / 2}, reading: shares{most: l.AtOnce / 8}, bodies: shares{most: min(bodyRoom, l.AtOnce)},
		},
		decider: decider{
			world: &w, limits: l, flags: flags, open: remotes{open: w.Open}, judging: make(chan struct{}, l.AtOnce),
			callers: shares{most: l.AtOnce / 2}, hosts: shares{most: l.AtOnce / 2},
		},
		features: featureReader{world: &w, flags: flags, every: l.Follow, highest: map[string]featuretransition.State{}},
		records:  records{world: &w, record: newRecord(w.Record, w.Clock)},
	}
	s.decider.features, s.features.tally = &s.features, &s.records.tally
	if err := s.Reload(ctx); err != nil {
		return nil, err
	}
	s.mux = s.routes()
	return s, nil
}

// Reload reads the basis anew. One that cannot be read leaves the last one in
// force, and that is said on the status page until a reload succeeds.
func (s *Server) Reload(ctx context.Context) error {
	s.reload.Lock()
	defer s.reload.Unlock()
	next, err := s.world.Load(ctx)
	if err == nil {
		err = errors.Join(next.Policy.Life(s.world.Clock()), next.Policy.Root(next.Verifier.Root().IsLab()))
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
			s.world.Log.ErrorContext(ctx, "reload failed, the last basis stays in force", "error", err.Error(), "code", string(verdict.FindingOf("basis", err).Code))
		}
		s.records.tally.reloaded(false)
		return err
	}
	s.basis.Store(&standing{Basis: next, digest: next.digest(), since: now, switched: features, tokens: &recognised{}})
	s.records.tally.reloaded(true)
	s.world.Log.InfoContext(ctx, "basis in force", "policy", next.Policy.Digest().String(), "trust_root", next.Verifier.Root().Digest().String())
	return nil
}

// Follow reads the features anew. A state that has changed is in force from then
// on; where they cannot be read the last ones stay, for some minutes.
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

// Drain makes the server say that it is not ready, so that it gets no new
// requests. Those that come all the same are answered.
func (s *Server) Drain() { s.draining.Store(true) }

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.draining.Load() || isOld(r, s.world.Clock()) {
		w.Header().Set("Connection", "close")
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if len(r.TransferEncoding) > 0 { // whoever is between us may see another end of it, and another request after that
		w.Header().Set("Connection", "close")
	}
	if r.URL.RawPath != "" || r.URL.Path != path.Clean(r.URL.Path) { // no address has two spellings
		http.NotFound(w, r)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// remotes are the registries that were asked about, each opened once.
type remotes struct {
	open func(host string) (*registry.Remote, error)
	mu   sync.Mutex // owns all
	all  map[string]*registry.Remote
}

// maxRemotes bounds them: whoever may ask about anything must not fill us.
const maxRemotes = 1000

func (r *remotes) at(host string) (*registry.Remote, error) {
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
