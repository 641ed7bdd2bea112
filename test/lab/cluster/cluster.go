// Package cluster runs a Kubernetes control plane on loopback: etcd, the API
// server, the controller manager and the scheduler, as processes of the programs
// that make cluster builds. It has no nodes: package node, beside it, is one that
// runs the containers of pods as processes.
//
//	c := cluster.Start(t)                                  // or StartServer, without controllers
//	c.Apply(t, manifest)                                   // YAML of one or several objects
//	err := c.Do(ctx, http.MethodGet, "/api/v1/nodes", nil, &nodes)
//	for event, err := range c.Watch(ctx, "/api/v1/pods") { … }
//
// Where the programs are not built, the test is skipped and says so.
package cluster

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/waybill-release/waybill/test/servers/process"
)

// Version is that of Kubernetes in test/peers/kubernetes.
const Version = "v1.36.3"

// Cluster is a control plane that runs until the test ends.
type Cluster struct {
	URL   string // of the API server
	CA    []byte // the certificates that its clients trust, PEM
	Token string // of a user of the group system:masters
	// Issuer is the issuer of the tokens of service accounts. It answers discovery
	// on loopback without TLS, as the lab's own issuer does.
	Issuer string
	// Kubeconfig is a file for kubectl and other clients, with all of the above.
	Kubeconfig string

	client *http.Client
	etcd   *process.Process
	server *process.Process
}

// Timing of lost nodes. Kubernetes' own is 50 s until a node counts as lost, and
// five minutes until its pods are evicted.
const (
	Grace      = 20 * time.Second
	toleration = 5 * time.Second
)

// Start starts a whole control plane, and waits until it has the default service
// account, which pods need.
func Start(t testing.TB) *Cluster {
	t.Helper()
	manager, scheduler := Program(t, "kube-controller-manager"), Program(t, "kube-scheduler")
	c := StartServer(t)
	for name, args := range map[string][]string{
		"kube-controller-manager": {
			manager, "--service-account-private-key-file=accounts.key", "--root-ca-file=certificates/apiserver.crt",
			"--node-monitor-period=1s", "--node-monitor-grace-period=" + Grace.String(),
		},
		"kube-scheduler": {scheduler},
	} {
		address := process.Address(t)
		_, port, _ := strings.Cut(address, ":")
		process.Start(t, process.Server{Name: name, Version: Version, Dir: filepath.Dir(c.Kubeconfig), Ready: "https://" + address + "/healthz", Args: append(args,
			"--kubeconfig="+c.Kubeconfig, "--leader-elect=false", "--cert-dir=certificates", "--secure-port="+port, "--bind-address=127.0.0.1")})
	}
	c.Await(t, "the default service account", func() bool {
		return c.Do(t.Context(), http.MethodGet, "/api/v1/namespaces/default/serviceaccounts/default", nil, nil) == nil
	})
	return c
}

// StartServer starts etcd and the API server alone: objects are kept and admitted,
// and nothing acts on them.
func StartServer(t testing.TB) *Cluster {
	t.Helper()
	etcd, server := Program(t, "etcd"), Program(t, "kube-apiserver")
	dir := t.TempDir()
	c := &Cluster{Token: rand.Text(), Kubeconfig: filepath.Join(dir, "kubeconfig")}
	key := c.issue(t, dir)
	save(t, filepath.Join(dir, "tokens.csv"), fmt.Appendf(nil, "%s,admin,admin,system:masters\n", c.Token))

	store, peers, address := process.Address(t), process.Address(t), process.Address(t)
	c.URL = "https://" + address
	c.etcd = process.Start(t, process.Server{Name: "etcd", Dir: dir, Ready: "http://" + store + "/health", Args: []string{
		etcd, "--data-dir=etcd", "--listen-client-urls=http://" + store, "--advertise-client-urls=http://" + store, "--listen-peer-urls=http://" + peers,
		"--initial-advertise-peer-urls=http://" + peers, "--initial-cluster=default=http://" + peers, "--log-level=error", "--unsafe-no-fsync",
	}})
	_, port, _ := strings.Cut(address, ":")
	c.server = process.Start(t, process.Server{Name: "kube-apiserver", Version: Version, Dir: dir, Ready: c.URL + "/livez", Args: []string{
		server, "--etcd-servers=http://" + store, "--service-account-key-file=" + key, "--service-account-signing-key-file=" + key,
		"--service-account-issuer=" + c.Issuer, "--api-audiences=" + c.Issuer, "--service-cluster-ip-range=10.0.0.0/24", "--cert-dir=certificates",
		"--secure-port=" + port, "--bind-address=127.0.0.1", "--advertise-address=192.0.2.1", "--endpoint-reconciler-type=none",
		"--token-auth-file=tokens.csv", "--authorization-mode=RBAC", "-v=0", fmt.Sprintf("--default-unreachable-toleration-seconds=%d", int(toleration.Seconds())),
	}})
	c.trust(t, filepath.Join(dir, "certificates", "apiserver.crt"))
	c.awaitReady(t)
	return c
}

// Program is a program that make cluster builds. Without it the test skips, except
// where WAYBILL_REQUIRE_CLUSTER is set.
func Program(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("WAYBILL_PEERS")
	if dir == "" {
		dir = filepath.Join(module(t), "bin")
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("WAYBILL_REQUIRE_CLUSTER") == "1" {
			t.Fatalf("not built: make cluster (%v)", err)
		}
		t.Skipf("NOT RUN, not built: make cluster (no %s)", name)
	}
	return path
}

// module is the directory of the test module, in which a package's tests run some
// folders down.
func module(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for dir != filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	t.Fatal("the test runs outside of a module")
	return ""
}

// issue makes the key of the service accounts' tokens, and an issuer that
// publishes it. It returns the file of the key.
func (c *Cluster) issue(t testing.TB, dir string) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "accounts.key")
	save(t, path, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	keys := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: keyID(t, &key.PublicKey), Algorithm: "RS256", Use: "sig"}}}
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/.well-known/openid-configuration":
			_ = json.NewEncoder(w).Encode(map[string]any{
				"issuer": c.Issuer, "jwks_uri": c.Issuer + "/openid/v1/jwks", "response_types_supported": []string{"id_token"},
				"subject_types_supported": []string{"public"}, "id_token_signing_alg_values_supported": []string{"RS256"},
			})
		case "/openid/v1/jwks":
			_ = json.NewEncoder(w).Encode(keys)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(issuer.Close)
	c.Issuer = issuer.URL
	return path
}

// trust reads the certificate that the API server made for itself, and writes
// the configuration of its clients.
func (c *Cluster) trust(t testing.TB, file string) {
	t.Helper()
	var err error
	if c.CA, err = os.ReadFile(file); err != nil {
		t.Fatal(err)
	}
	c.client = clientOf(c.CA)
	save(t, c.Kubeconfig, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: lab, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: admin, user: {token: %q}}]
contexts: [{name: lab, context: {cluster: lab, user: admin}}]
current-context: lab
`, c.URL, file, c.Token))
}

// awaitReady waits until the API server says that its parts are ready, which the
// first objects need.
func (c *Cluster) awaitReady(t testing.TB) {
	t.Helper()
	c.Await(t, "the API server", func() bool { return c.Do(t.Context(), http.MethodGet, "/readyz", nil, nil) == nil })
}

// Restart ends the API server as kill -9 does, and starts it again.
func (c *Cluster) Restart(t testing.TB) {
	t.Helper()
	c.server.Kill(t)
	c.server.Restart(t)
	c.awaitReady(t)
}

func save(t testing.TB, path string, body []byte) {
	t.Helper()
	if err := os.WriteFile(path, body, 0o600); err != nil {
		t.Fatal(err)
	}
}
