package profile

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/transport"
)

// defaultModuleProxy is where Go modules are fetched from if a profile names no
// other proxy: the default of the go command. Modules are checked against
// go.sum, so the proxy can only withhold them.
const defaultModuleProxy = "https://proxy.golang.org"

// modules says where the Go modules of a build are fetched from.
type modules struct {
	// Proxy is the address of a module proxy, by https, or by http on this
	// machine.
	Proxy *string `yaml:"proxy"`
}

func (m modules) check() error {
	u, err := url.Parse(m.address())
	if err != nil {
		return fmt.Errorf("modules.proxy: %w", err)
	}
	list := strings.ContainsAny(m.address(), ",| ") // the go command accepts a list; then it would be unclear which proxy answered
	plain := u.Scheme == "http" && transport.Loopback(u.Hostname())
	if u.Scheme != "https" && !plain || list || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("modules.proxy: %q: want one https address, such as %s; plain http is for this machine only", m.address(), defaultModuleProxy)
	}
	return nil
}

func (m modules) address() string {
	if m.Proxy == nil {
		return defaultModuleProxy
	}
	return *m.Proxy
}
