// Command dex is the OpenID Connect issuer dex with its storage in memory, static
// clients and users with passwords, for the tests of servers. POST /clock sets its
// clock ahead, or back, by the duration in the body.
//
//	dex -issuer http://127.0.0.1:5556/dex -clients sigstore,gate -users ann@dex.invalid
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dexidp/dex/server"
	"github.com/dexidp/dex/storage"
	"github.com/dexidp/dex/storage/memory"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	"golang.org/x/crypto/bcrypt"
)

// secret is the secret of every client, and the password of every user.
const secret = "not-a-secret"

func main() {
	issuer := flag.String("issuer", "", "URL of the issuer, on loopback")
	clients := flag.String("clients", "", "names of clients, separated by commas: the audiences of tokens")
	users := flag.String("users", "", "addresses of users, separated by commas")
	valid := flag.Duration("valid", 10*time.Minute, "how long tokens are valid")
	flag.Parse()
	if err := serve(*issuer, strings.Split(*clients, ","), strings.Split(*users, ","), *valid); err != nil {
		log.Fatal(err)
	}
}

func serve(issuer string, clients, users []string, valid time.Duration) error {
	at, err := url.Parse(issuer)
	if err != nil {
		return err
	}
	if err := writePages("web"); err != nil {
		return err
	}
	logger := logrus.New()
	kept, err := stored(clients, users, logger)
	if err != nil {
		return err
	}
	c := &clock{}
	dex, err := server.NewServer(context.Background(), server.Config{
		Issuer: issuer, Storage: kept, SkipApprovalScreen: true, IDTokensValidFor: valid, Now: c.now, Web: server.WebConfig{Dir: "web"}, Logger: logger, PrometheusRegistry: prometheus.NewRegistry(),
	})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/", dex)
	mux.HandleFunc("POST /clock", c.set)
	return http.ListenAndServe(at.Host, mux)
}

// stored are the clients, and the users of the one connector.
func stored(clients, users []string, logger logrus.FieldLogger) (storage.Storage, error) {
	hash, err := bcrypt.GenerateFromPassword([]byte(secret), bcrypt.DefaultCost)
	if err != nil {
		return nil, err
	}
	var all []storage.Client
	for _, name := range clients {
		all = append(all, storage.Client{ID: name, Secret: secret, Name: name, RedirectURIs: []string{"http://127.0.0.1/callback"}})
	}
	var known []storage.Password
	for _, email := range users {
		known = append(known, storage.Password{Email: email, Hash: hash, Username: email, UserID: email})
	}
	s := storage.WithStaticPasswords(storage.WithStaticClients(memory.New(logger), all), known, logger)
	return storage.WithStaticConnectors(s, []storage.Connector{{ID: server.LocalConnector, Type: server.LocalConnector, Name: "password"}}), nil
}

// writePages writes the pages that dex does not start without.
func writePages(dir string) error {
	for _, d := range []string{"static", "templates", "themes/coreos"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	for _, name := range []string{"approval", "login", "password", "oob", "error"} {
		if err := os.WriteFile(filepath.Join(dir, "templates", name+".html"), []byte(name), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// clock is how far the issuer's clock is ahead.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func (c *clock) set(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(io.LimitReader(r.Body, 100))
	ahead, parsed := time.ParseDuration(string(raw))
	if err != nil || parsed != nil {
		http.Error(w, fmt.Sprint(err, parsed), http.StatusBadRequest)
		return
	}
	c.ahead.Store(int64(ahead))
}
