package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/tool/strictyaml"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Timeouts of a connection. Whoever sends or reads slowly is not waited for.
const (
	headerTime = 5 * time.Second
	readTime   = 30 * time.Second
	writeTime  = 60 * time.Second
	idleTime   = 60 * time.Second
	maxHeader  = 16 << 10
	// DrainTime is how long requests have to end when the service ends: less
	// than Kubernetes waits before it kills.
	DrainTime = 25 * time.Second
	// maxDeadline leaves who is being answered when the service ends the time for
	// it, and maxRemember is how long a decision may outlive its reasons; both in
	// seconds.
	maxDeadline = 20
	maxRemember = 3600
)

// Config is how the service is run: a file of kind GateService. Paths in it are
// relative to it.
type Config struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Grounds    `yaml:",inline"`
	// Listen is where callers ask, Admin where those who look after the service
	// do; both HOST:PORT.
	Listen string `yaml:"listen"`
	Admin  string `yaml:"admin"`
	TLS    *TLS   `yaml:"tls"`
	// Approvals is the place where used approvals are written: a directory that is
	// there, or a bucket; the same for all replicas. Without it nothing is
	// overridden.
	Approvals string `yaml:"approvals"`
	Limits    struct {
		DeadlineSeconds int `yaml:"deadlineSeconds"`
		AtOnce          int `yaml:"atOnce"`
		Queue           int `yaml:"queue"`
		PerCaller       int `yaml:"perCallerPerSecond"`
		RememberSeconds int `yaml:"rememberSeconds"`
	} `yaml:"limits"`
}

// Grounds are where the service finds what its decisions rest on.
type Grounds struct {
	Profile string `yaml:"profile"` // policy, trust root, known defects
	Callers string `yaml:"callers"` // the book
	// Summaries has what is accepted to be promoted vouched for: by a summary that
	// the verifier signs, for whom and by whose policy the profile says in records.
	Summaries bool `yaml:"summaries"`
	// Features are where others switch what the policy lets them; none leaves the
	// policy as it is written.
	Features *FeatureUse `yaml:"features"`
}

// FeatureUse is how the service goes by features.
type FeatureUse struct {
	// Site is where they are kept: a directory, or a bucket.
	Site string `yaml:"site"`
	// ReportAs is the name under which it reports what it found, which those who
	// switch features wait for; without one it reports nothing.
	ReportAs string `yaml:"reportAs"`
	// Reconcile is the file of a reconciler that is to run inside the service.
	Reconcile string `yaml:"reconcile"`
}

// TLS are the files of the service's certificate. With Clients, the authorities
// of client certificates, callers can show one.
type TLS struct {
	Certificate string `yaml:"certificate"`
	Key         string `yaml:"key"`
	Clients     string `yaml:"clients"`
}

// ParseConfig reads a configuration whose paths are relative to dir.
func ParseConfig(raw []byte, dir string) (Config, error) {
	var c Config
	refuse := func(format string, args ...any) (Config, error) {
		return Config{}, verdict.Refuse(verdict.ConfigParse, "service", format, args...)
	}
	if err := strictyaml.Unmarshal(raw, &c); err != nil {
		return Config{}, verdict.Wrap(verdict.ConfigParse, "service", err)
	}
	host, port, err := net.SplitHostPort(c.Listen)
	_, _, err2 := net.SplitHostPort(c.Admin)
	l := c.Limits
	switch {
	case c.APIVersion != "waybill/v1" || c.Kind != "GateService":
		return refuse("apiVersion %.40q and kind %.40q: want waybill/v1 and GateService", c.APIVersion, c.Kind)
	case c.Profile == "" || c.Callers == "":
		return refuse("profile and callers are required")
	case err != nil || err2 != nil || c.Listen == c.Admin && port != "0":
		return refuse("listen %q, admin %q: want two addresses, HOST:PORT", c.Listen, c.Admin)
	case c.Features != nil && c.Features.Site == "":
		return refuse("features: want site, the directory or bucket where they are kept")
	case c.Features != nil && !isReporter(c.Features.ReportAs):
		return refuse("features: reportAs %.100q: want a name without spaces of at most 100 characters, such as gate", c.Features.ReportAs)
	case c.TLS == nil && !transport.Loopback(host):
		return refuse("tls: required, for %s is not this machine alone", c.Listen)
	case c.TLS != nil && (c.TLS.Certificate == "" || c.TLS.Key == ""):
		return refuse("tls: want certificate and key")
	case l.DeadlineSeconds < 0 || l.AtOnce < 0 || l.Queue < 0 || l.PerCaller < 0 || l.RememberSeconds < 0:
		return refuse("limits: want numbers from 1")
	case l.DeadlineSeconds > maxDeadline || l.RememberSeconds > maxRemember:
		return refuse("limits: want deadlineSeconds of %d and rememberSeconds of %d at most", maxDeadline, maxRemember)
	}
	paths := []*string{&c.Profile, &c.Callers}
	if !strings.Contains(c.Approvals, "://") {
		paths = append(paths, &c.Approvals)
	}
	if f := c.Features; f != nil {
		paths = append(paths, &f.Reconcile)
		if !strings.Contains(f.Site, "://") {
			paths = append(paths, &f.Site)
		}
	}
	if c.TLS != nil {
		paths = append(paths, &c.TLS.Certificate, &c.TLS.Key, &c.TLS.Clients)
	}
	for _, p := range paths {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(dir, *p)
		}
	}
	return c, nil
}

// isReporter reports whether text can be a name to report as; none is "".
func isReporter(text string) bool {
	return len(text) <= 100 && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' })
}

// Check reads the files of the certificate, as the service does when it begins.
func (c Config) Check() error {
	_, err := c.certificates()
	return err
}

// Bear are the limits that the configuration sets.
func (c Config) Bear() Limits {
	return Limits{
		Deadline: time.Duration(c.Limits.DeadlineSeconds) * time.Second, AtOnce: c.Limits.AtOnce, Queue: c.Limits.Queue,
		PerCaller: c.Limits.PerCaller, Remember: time.Duration(c.Limits.RememberSeconds) * time.Second,
	}
}

// Serve listens until ctx ends; then it takes no new requests, and ends when
// those that it has are answered, or after [DrainTime]. Ready is told where it
// listens. Each value of reload has the basis read anew.
func (s *Server) Serve(ctx context.Context, c Config, reload <-chan os.Signal, ready func(callers, admin string)) error {
	certificates, err := c.certificates()
	if err != nil {
		return err
	}
	if _, _, err := s.records.record.tell(ctx); err != nil { // what cannot be recorded is not begun
		return err
	}
	front, err := listen(c.Listen)
	if err != nil {
		return err
	}
	defer front.Close()
	back, err := listen(c.Admin)
	if err != nil {
		return err
	}
	defer back.Close()
	ours, theirs := s.bounded(ctx, s.Admin()), s.bounded(ctx, s)
	asking := &connections{Listener: front, most: maxConnections, clock: s.world.Clock}
	theirs.TLSConfig, theirs.ConnContext = certificates, asking.context
	if c.TLS != nil {
		s.admission.clients.file = c.TLS.Clients
	}
	ended := make(chan error, 2)
	go func() { ended <- ours.Serve(back) }()
	go func() {
		if certificates != nil {
			ended <- theirs.ServeTLS(asking, "", "")
			return
		}
		ended <- theirs.Serve(asking)
	}()
	defer s.begin(ctx)()
	ready(front.Addr().String(), back.Addr().String())
	for {
		select {
		case <-reload:
			s.renew(ctx)
		case err := <-ended:
			return fmt.Errorf("listening: %w", err)
		case <-ctx.Done():
			return s.end(theirs, ours)
		}
	}
}

// renew reads the basis anew, and has everything begin by it that rests on one.
func (s *Server) renew(ctx context.Context) {
	if s.Reload(ctx) != nil {
		return // what is wrong is logged, and shown
	}
	select {
	case s.reloaded <- struct{}{}:
	default: // it was told already
	}
}

// begin tends the features beside what is answered. The function that it returns
// ends that, and waits for it.
func (s *Server) begin(ctx context.Context) (end func()) {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.tend(ctx)
	}()
	return func() {
		stop()
		select {
		case <-ended:
		case <-time.After(DrainTime): // what a pass has begun another one goes on with
		}
	}
}

// tend reads the features now and then, reports what was found, and reconciles
// where that is ours, until ctx ends and for what is under way then.
func (s *Server) tend(ctx context.Context) {
	if s.world.Features == nil {
		return
	}
	looped := make(chan struct{})
	go func() {
		defer close(looped)
		s.features.reconcile(ctx)
	}()
	for {
		s.features.report(ctx, s.basis.Load().switched)
		select {
		case <-ctx.Done():
			s.features.report(context.WithoutCancel(ctx), s.basis.Load().switched)
			<-looped
			return
		case <-time.After(s.limits.Follow):
			_ = s.Follow(ctx) // what is wrong is logged, and shown
		case <-s.reloaded:
			if stop := s.features.looping.Load(); stop != nil {
				(*stop)()
			}
		}
	}
}

// end answers what is being asked, and no more.
func (s *Server) end(all ...*http.Server) error {
	ctx, stop := context.WithTimeout(context.Background(), DrainTime)
	defer stop()
	s.Drain()
	defer s.records.writeStrangers(ctx)
	_ = transport.Sleep(ctx, min(s.limits.Parting, DrainTime/2)) // ctx outlasts it
	var wait sync.WaitGroup
	errs := make([]error, len(all))
	for i, one := range all {
		wait.Go(func() { errs[i] = one.Shutdown(ctx) })
	}
	wait.Wait()
	return errors.Join(errs...)
}

func (s *Server) bounded(ctx context.Context, h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: headerTime, ReadTimeout: readTime, WriteTimeout: writeTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: 100},
		BaseContext: func(net.Listener) context.Context { return span.Anew(context.WithoutCancel(ctx)) }, // who is being answered is answered
		ErrorLog:    slog.NewLogLogger(s.world.Log.Handler(), slog.LevelDebug),
	}
}

func listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, verdict.Wrap(verdict.ConfigParse, address, err)
	}
	return l, nil
}

// certificates reads the files anew for each connection, so that a certificate
// can be renewed while the service runs.
func (c Config) certificates() (*tls.Config, error) {
	if c.TLS == nil {
		return nil, nil
	}
	read := func() (*tls.Config, error) {
		pair, err := tls.LoadX509KeyPair(c.TLS.Certificate, c.TLS.Key)
		if err != nil {
			return nil, verdict.Wrap(verdict.ConfigParse, c.TLS.Certificate, err)
		}
		now := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
		if c.TLS.Clients == "" {
			return now, nil
		}
		raw, err := os.ReadFile(c.TLS.Clients)
		if err != nil {
			return nil, verdict.Wrap(verdict.ConfigParse, c.TLS.Clients, err)
		}
		now.ClientCAs, now.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
		if !now.ClientCAs.AppendCertsFromPEM(raw) {
			return nil, verdict.Refuse(verdict.ConfigParse, c.TLS.Clients, "there is no certificate in it")
		}
		return now, nil
	}
	first, err := read()
	if err != nil {
		return nil, err
	}
	last := first
	var mu sync.Mutex // owns last
	first = first.Clone()
	first.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		mu.Lock()
		defer mu.Unlock()
		if now, err := read(); err == nil { // half-written files are not taken over
			last = now
		}
		return last, nil
	}
	return first, nil
}
