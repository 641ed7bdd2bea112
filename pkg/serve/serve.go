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

// Timeouts of a connection; slower clients are disconnected.
const (
	headerTime = 5 * time.Second
	readTime   = 30 * time.Second
	writeTime  = 60 * time.Second
	idleTime   = 60 * time.Second
	maxHeader  = 16 << 10
	// DrainTime is how long requests may take when the service ends: less than
	// Kubernetes waits before it kills the process.
	DrainTime = 25 * time.Second
	// maxDeadline keeps a request shorter than the drain time, and maxRemember
	// limits how long a decision may outlive changes outside of the basis; both
	// in seconds.
	maxDeadline = 20
	maxRemember = 3600
)

// Config is the configuration of the service: a file of kind GateService. Paths
// in it are relative to the file.
type Config struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Grounds    `yaml:",inline"`
	// Listen is the address for callers, Admin the one for operators; both
	// HOST:PORT.
	Listen string `yaml:"listen"`
	Admin  string `yaml:"admin"`
	TLS    *TLS   `yaml:"tls"`
	// Approvals is the place where used override tokens are recorded: an
	// existing directory, or a bucket; the same for all replicas. Without it
	// there are no overrides.
	Approvals string `yaml:"approvals"`
	Limits    struct {
		DeadlineSeconds int `yaml:"deadlineSeconds"`
		AtOnce          int `yaml:"atOnce"`
		Queue           int `yaml:"queue"`
		PerCaller       int `yaml:"perCallerPerSecond"`
		RememberSeconds int `yaml:"rememberSeconds"`
	} `yaml:"limits"`
}

// Grounds are what decisions depend on.
type Grounds struct {
	Profile string `yaml:"profile"` // policy, trust root, known defects
	Callers string `yaml:"callers"` // the book of callers
	// Summaries enables signed summaries of accepted promotions; the section
	// records of the profile names the verifier and the policy in them.
	Summaries bool `yaml:"summaries"`
	// Features enables features that switch requirements of the policy; without
	// it the policy applies as written.
	Features *FeatureUse `yaml:"features"`
	// Proxy makes the service a registry in front of another one.
	Proxy *Proxy `yaml:"proxy"`
	// Cluster makes the service an admission webhook of Kubernetes.
	Cluster *ClusterUse `yaml:"cluster"`
}

// FeatureUse is how the service uses features.
type FeatureUse struct {
	// Site is where they are stored: a directory, or a bucket.
	Site string `yaml:"site"`
	// ReportAs is the name under which the service reports its findings, which
	// those who switch features wait for; without a name it does not report.
	ReportAs string `yaml:"reportAs"`
	// Reconcile is the configuration file of a reconciler to run inside the
	// service.
	Reconcile string `yaml:"reconcile"`
}

// TLS are the files of the service's certificate. With Clients, the authorities
// of client certificates, callers can authenticate with a certificate.
type TLS struct {
	Certificate string `yaml:"certificate"`
	Key         string `yaml:"key"`
	Clients     string `yaml:"clients"`
}

// ParseConfig parses a configuration whose paths are relative to dir.
func ParseConfig(raw []byte, dir string) (c Config, err error) {
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
		return refuse("listen %q, admin %q: want two different addresses, HOST:PORT", c.Listen, c.Admin)
	case c.Features != nil && c.Features.Site == "":
		return refuse("features: site is required, the directory or bucket where they are stored")
	case c.Features != nil && !isReporter(c.Features.ReportAs):
		return refuse("features: reportAs %.100q: want a name without spaces of at most 100 characters, such as gate", c.Features.ReportAs)
	case c.Proxy != nil && !c.Proxy.valid():
		return refuse("proxy: want registry, HOST or HOST:PORT, and guarded, repositories of it, such as %.100q", c.Proxy.Registry+"/prod/")
	case c.TLS == nil && !transport.Loopback(host):
		return refuse("tls: required, because other machines can reach %s", c.Listen)
	case c.TLS != nil && (c.TLS.Certificate == "" || c.TLS.Key == ""):
		return refuse("tls: certificate and key are required")
	case l.DeadlineSeconds < 0 || l.AtOnce < 0 || l.Queue < 0 || l.PerCaller < 0 || l.RememberSeconds < 0:
		return refuse("limits: values must not be negative")
	case l.DeadlineSeconds > maxDeadline || l.RememberSeconds > maxRemember:
		return refuse("limits: want at most %d for deadlineSeconds and %d for rememberSeconds", maxDeadline, maxRemember)
	}
	if err := c.Cluster.check(); err != nil {
		return refuse("cluster: %v", err)
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

// isReporter reports whether text is a valid reporter name, or "" for none.
func isReporter(text string) bool {
	return len(text) <= 100 && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' })
}

// Check reads the files of the certificate, as the service does when it starts.
func (c Config) Check() error {
	_, err := c.certificates()
	return err
}

// ServerLimits returns the limits in the configuration.
func (c Config) ServerLimits() Limits {
	return Limits{
		Deadline: time.Duration(c.Limits.DeadlineSeconds) * time.Second, AtOnce: c.Limits.AtOnce, Queue: c.Limits.Queue,
		PerCaller: c.Limits.PerCaller, Remember: time.Duration(c.Limits.RememberSeconds) * time.Second,
	}
}

// Serve listens until ctx ends; then it accepts no new requests, and returns
// when current requests are answered, or after [DrainTime]. ready receives the
// addresses. Each value of reload triggers a reload of the basis.
func (s *Server) Serve(ctx context.Context, c Config, reload <-chan os.Signal, ready func(callers, admin string)) error {
	certificates, err := c.certificates()
	if err != nil {
		return err
	}
	if _, _, err := s.records.record.tell(ctx); err != nil { // a service that cannot write its record must not start
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

// renew reads the basis again, and restarts what depends on it.
func (s *Server) renew(ctx context.Context) {
	if s.Reload(ctx) != nil {
		return // errors are logged, and shown on the status page
	}
	select {
	case s.reloaded <- struct{}{}:
	default: // a restart is already pending
	}
}

// begin maintains the features in the background. The returned function ends
// that, and waits for it.
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
		case <-time.After(DrainTime): // the next pass continues what a pass began
		}
	}
}

// tend periodically reads the features, reports findings, and reconciles if
// configured, until ctx ends; a pass under way is completed.
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
			_ = s.Follow(ctx) // errors are logged, and shown on the status page
		case <-s.reloaded:
			if stop := s.features.looping.Load(); stop != nil {
				(*stop)()
			}
		}
	}
}

// end answers current requests, and accepts no new ones.
func (s *Server) end(all ...*http.Server) error {
	ctx, stop := context.WithTimeout(context.Background(), DrainTime)
	defer stop()
	s.Drain()
	defer s.records.writeStrangers(ctx)
	_ = transport.Sleep(ctx, min(s.limits.Parting, DrainTime/2)) // it must outlast ctx
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
		BaseContext: func(net.Listener) context.Context { return span.Anew(context.WithoutCancel(ctx)) }, // current requests are answered
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

// certificates reads the files again for each connection, so that a certificate
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
			return nil, verdict.Refuse(verdict.ConfigParse, c.TLS.Clients, "the file contains no certificate")
		}
		return now, nil
	}
	first, err := read()
	if err != nil {
		return nil, err
	}
	last := first
	var mu sync.Mutex // guards last
	first = first.Clone()
	first.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		mu.Lock()
		defer mu.Unlock()
		if now, err := read(); err == nil { // half-written files are ignored
			last = now
		}
		return last, nil
	}
	return first, nil
}
