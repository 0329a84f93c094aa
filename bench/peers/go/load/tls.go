package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// connectTLS opens a connection for each frame. crypto/tls has no way to be told that bytes have
// come, so each has a goroutine, of which one runs at a time.
func (l *load) connectTLS(address, authority, path string) {
	pem, err := os.ReadFile(authority)
	must(err, "AUTHORITY")
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	host, _, err := net.SplitHostPort(address)
	must(err, "ADDRESS")
	for _, frame := range framesOf(path) {
		settings := &tls.Config{RootCAs: trusted, ServerName: host}
		socket, err := tls.DialWithDialer(&net.Dialer{Timeout: limit}, "tcp", address, settings)
		must(err, "connect")
		l.connections = append(l.connections, &connection{secured: socket, frame: frame})
	}
}

func (l *load) runTLS(duration time.Duration) int {
	l.responses = 0
	end := time.Now().Add(duration)
	var all sync.WaitGroup
	var counting sync.Mutex
	for _, c := range l.connections {
		must(c.secured.SetDeadline(end.Add(limit)), "the limit of a connection")
		all.Go(func() {
			count := l.converse(c, end)
			counting.Lock()
			defer counting.Unlock()
			l.responses += count
		})
	}
	all.Wait()
	return l.responses
}

// converse sends one request after the other until the end, and returns how many were answered.
func (l *load) converse(c *connection, end time.Time) int {
	response := make([]byte, bufferBytes)
	for count := 0; ; count++ {
		if count > 0 && !time.Now().Before(end) {
			return count
		}
		l.stamp(c)
		_, err := c.secured.Write(c.frame)
		must(err, "write")
		_, err = io.ReadFull(c.secured, response[:4])
		must(err, "read")
		size := 4 + int(binary.BigEndian.Uint32(response))
		_, err = io.ReadFull(c.secured, response[4:size])
		must(err, "read")
		l.accept(c, response[:size])
	}
}
