package serve

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/serve/caller"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Proxy makes the service a registry in front of another one, which must not be
// reachable otherwise.
type Proxy struct {
	// Registry is the other registry, as HOST or HOST:PORT.
	Registry string `yaml:"registry"`
	// Guarded are repositories, as HOST/PATH: their tags name only images that
	// the policy accepts, and only those can be pulled. A name that ends with a
	// slash covers everything below it. All others are passed on unjudged.
	Guarded []string `yaml:"guarded"`
}

func (p *Proxy) valid() bool {
	return len(p.Guarded) > 0 && hasHost(p.Registry) && !slices.ContainsFunc(p.Guarded, func(g string) bool {
		return !caller.IsResource(g) || !strings.HasPrefix(g, p.Registry+"/")
	})
}

// proxying is what the server needs as a proxy.
type proxying struct {
	attaching shares // one writer at a time for each tag of evidence
	buffers   buffers
	key       []byte        // of the tokens of uploads
	window    time.Duration // see pacedBody

	mu      sync.Mutex       // guards covered
	covered map[string]asked // accepted questions, by each image that they cover
}

// maxCovered bounds the images that are known to be covered by another question.
const maxCovered = 20_000

// question is what to ask about an image, which its index may cover: clients
// pull an index by its tag, and then the manifests in it by digest.
func (p *proxying) question(a asked) asked {
	p.mu.Lock()
	defer p.mu.Unlock()
	if by, is := p.covered[a.Image]; is {
		a.Image, a.digest, a.Version = by.Image, by.digest, by.Version
	}
	return a
}

func (p *proxying) cover(by asked, images ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.covered == nil || len(p.covered)+len(images) > maxCovered {
		p.covered = map[string]asked{}
	}
	for _, image := range images {
		p.covered[image] = by
	}
}

func (p *proxying) uncover(image string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.covered, image)
}

// registryPath has the repository, the kind of object, and its name.
var registryPath = pattern.Lazy(`\A/v2/([a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*)/(manifests|blobs/uploads|blobs|tags|referrers)/([A-Za-z0-9_][A-Za-z0-9_.:+=-]*)?\z`)

// passage is a request to the registry.
type passage struct {
	id              string
	began           time.Time
	basis           *standing
	who             caller.Principal
	at              *registry.Remote
	place           string // the repository, as HOST/PATH
	repo, kind, ref string
	upload          *url.URL // where the registry continues an upload, if that is outside of /v2/
	guarded         bool
	pushes          bool // the caller may push to the repository
	decided         bool // the request has its line in the record
}

func (p *passage) byDigest() bool { return strings.Contains(p.ref, ":") }

// registry answers requests of the distribution specification.
func (s *Server) registry(w http.ResponseWriter, r *http.Request) {
	p := &passage{id: rand.Text(), began: s.world.Clock(), basis: s.basis.Load()}
	w.Header().Set("Waybill-Request-Id", p.id)
	w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
	leave, err := s.letPass(r, p)
	if err == nil {
		defer leave()
		if from := connectionOf(r); from != nil {
			from.completedRequest()
		}
		err = s.pass(w, r, p)
	}
	n := notLetIn{id: p.id, who: p.who, err: err, status: statusOf(err), unread: true}
	switch {
	case err == nil:
	case errors.Is(err, registry.ErrNotFound):
		n.status = http.StatusNotFound
		n.answer(w, r)
	case p.decided:
		n.answer(w, r)
	default:
		if p.who.Name() == "" {
			n.status = http.StatusUnauthorized
		}
		s.turnAway(w, r, n)
	}
}

// pass answers a request that is granted.
func (s *Server) pass(w http.ResponseWriter, r *http.Request, p *passage) error {
	switch {
	case p.kind == "": // GET /v2/
		writeJSON(w, http.StatusOK, struct{}{})
		return nil
	case !p.guarded:
	case p.kind == "manifests":
		return s.manifest(w, r, p)
	case p.kind == "blobs" && r.Method == http.MethodDelete:
		return p.keep("a blob of a guarded repository may be a part of evidence, and is not deleted")
	}
	return s.forward(w, r, p)
}

// letPass authenticates a caller, and checks that the whole request is granted.
// Clients of registries send their token as a password.
func (s *Server) letPass(r *http.Request, p *passage) (leave func(), err error) {
	ctx, stop := context.WithTimeout(r.Context(), s.limits.Deadline)
	defer stop()
	if _, password, is := r.BasicAuth(); is && len(r.Header.Values("Authorization")) == 1 {
		r.Header.Set("Authorization", "Bearer "+password)
	}
	if p.who, err = s.admission.identify(ctx, r, p.basis, ""); err != nil {
		return nil, err
	}
	if err := s.admission.spendRate(p.who, 1); err != nil {
		return nil, err
	}
	if err := s.name(r, p); err != nil {
		return nil, err
	}
	if isRead(r) {
		return s.admission.waiting.tryEnter(p.who.Name())
	}
	return s.admission.reading.enter(ctx, p.who.Name()) // fewer: an upload that stalls holds a connection to the registry
}

func isRead(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead
}

// name reads what a request is about, and whether that is granted.
func (s *Server) name(r *http.Request, p *passage) (err error) {
	found := registryPath().FindStringSubmatch(r.URL.Path)
	switch {
	case r.URL.Path == "/v2/" && isRead(r):
		return p.basis.Callers.MayAsk(p.who)
	case found == nil || len(r.URL.Path) > maxName:
		return registry.ErrNotFound
	}
	to := s.world.Proxy
	p.repo, p.kind, p.ref = found[1], found[2], found[3]
	p.place = to.Registry + "/" + p.repo
	p.guarded = caller.Covers(to.Guarded, p.place)
	p.pushes = p.may(caller.Push, p.place) == nil
	if err = p.may(caller.Push, p.place); isRead(r) {
		err = p.mayRead(p.place)
	}
	if err != nil {
		return err
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || len(q["from"]) > 1 {
		return malformed("the query of the address is ambiguous")
	}
	if from := q.Get("from"); from != "" {
		err = p.mayRead(to.Registry + "/" + from)
	} else {
		q.Del("mount") // else the registry would look for the blob everywhere
	}
	if p.guarded && p.kind == "manifests" { // some registries write tags that it names
		q = nil
	}
	if err == nil && p.kind == "blobs/uploads" && q.Has(uploadParameter) {
		err = p.continueUpload(s.proxying.key, q)
	}
	if r.URL.RawQuery = q.Encode(); err == nil { // as it was read here
		p.at, err = s.decider.open.registryAt(to.Registry)
	}
	return err
}

func (p *passage) may(verb caller.Verb, place string) error {
	return p.basis.Callers.May(p.who, caller.Act{Verb: verb, From: place, To: place, Channel: caller.NoChannel})
}

// mayRead returns an error unless the caller may pull, or push, which includes
// reading what was pushed.
func (p *passage) mayRead(place string) error {
	err := p.may(caller.Pull, place)
	if err != nil && p.may(caller.Push, place) == nil {
		return nil
	}
	return err
}

// keep refuses to lose evidence.
func (p *passage) keep(format string, args ...any) error {
	return verdict.Refuse("EVIDENCE_KEPT", p.place, format, args...)
}
