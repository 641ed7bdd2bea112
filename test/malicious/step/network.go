package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"
)

func dial(network, address string) error {
	c, err := net.DialTimeout(network, address, 3*time.Second)
	if err != nil {
		return err
	}
	return c.Close()
}

// dialMetadata asks where clouds keep the credentials of a machine.
func dialMetadata() error {
	return all([]string{"169.254.169.254:80", "[fd00:ec2::254]:80", "168.63.129.16:80", "100.100.100.200:80"}, func(a string) error {
		return dial("tcp", a)
	})
}

// dialWorld reaches for addresses that belong to nobody, and for a name.
func dialWorld() error {
	return all([]string{"198.51.100.1:443", "[2001:db8::1]:443", "example.test:443"}, func(a string) error {
		return dial("tcp", a)
	})
}

// useProxy asks the proxy for what was not declared.
func useProxy() error {
	proxy, err := url.Parse(os.Getenv("HTTPS_PROXY"))
	if err != nil || proxy.Host == "" {
		return errors.New("there is no proxy")
	}
	return all([]string{
		"CONNECT undeclared.example.test:443", "CONNECT 127.0.0.1:22", "CONNECT 169.254.169.254:80", "CONNECT [::1]:443",
		"CONNECT declared.example.test:22", "CONNECT localhost:443", "GET http://declared.example.test/", "CONNECT declared.example.test:443@127.0.0.1:22",
	}, func(line string) error {
		c, err := net.DialTimeout("tcp", proxy.Host, 3*time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		_, host, _ := cut(line)
		fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: %s\r\n\r\n", line, host)
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
		if answer.StatusCode == http.StatusOK {
			return nil
		}
		return fmt.Errorf("%s: %s", line, answer.Status)
	})
}

func cut(line string) (method, host string, ok bool) {
	for i := range line {
		if line[i] == ' ' {
			return line[:i], line[i+1:], true
		}
	}
	return line, "", false
}

// aroundProxy has a declared network and tries to do without the proxy.
func aroundProxy() error {
	return all([]string{"198.51.100.1:443", "169.254.169.254:80", os.Getenv("FULCIO")}, func(a string) error {
		if u, err := url.Parse(a); err == nil && u.Host != "" {
			a = u.Host
		}
		return dial("tcp", a)
	})
}
