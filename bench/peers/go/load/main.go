// A closed loop of prebuilt requests: one connection for each frame, one outstanding request on
// each connection, one thread.
//
// Usage: load [--tls AUTHORITY] ADDRESS FRAMES CHECK_AT CHECK_HEX [COUNTER_AT...]
//
// AUTHORITY is a PEM file of who has signed the broker's certificate.
// FRAMES is a file of Kafka requests with their length prefixes. Each time one is sent it gets a
// correlation id of its own and, at the byte positions COUNTER_AT, the same number as an int64. A
// response must repeat the correlation id and hold the bytes CHECK_HEX at CHECK_AT. Positions count
// from the length prefix.
//
// It prints "ready" when all connections are open. For each line "SECONDS" that it reads, it sends
// for so long, waits for the outstanding responses and prints how many came. It ends with a sentence
// if a broker does not answer for a minute.
package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

const (
	correlationAt = 8         // in a request: length, API key, API version
	looksAtClock  = 64        // wake-ups between two looks at the clock
	bufferBytes   = 64 * 1024 // no response of these loads is longer
	limit         = time.Minute
)

// A connection without TLS has a socket, and in received the part of a response that has come. One
// with TLS has secured instead of these two.
type connection struct {
	socket   int
	secured  *tls.Conn
	frame    []byte
	number   uint32
	received []byte
}

type load struct {
	epoll       int
	connections []*connection
	checkAt     int
	check       []byte
	counters    []int
	responses   int
}

func must(err error, what string) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "load: %s: %v\n", what, err)
		os.Exit(1)
	}
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	must(err, "a position in bytes")
	return value
}

func main() {
	words := os.Args[1:]
	authority := ""
	if len(words) > 1 && words[0] == "--tls" {
		authority, words = words[1], words[2:]
	}
	if len(words) < 4 {
		fmt.Fprintln(os.Stderr,
			"usage: load [--tls AUTHORITY] ADDRESS FRAMES CHECK_AT CHECK_HEX [COUNTER_AT...]")
		os.Exit(2)
	}
	check, err := hex.DecodeString(words[3])
	must(err, "CHECK_HEX")
	l := &load{checkAt: number(words[2]), check: check}
	for _, text := range words[4:] {
		l.counters = append(l.counters, number(text))
	}
	run := l.run
	if authority == "" {
		runtime.LockOSThread()
		l.connect(words[0], words[1])
	} else {
		runtime.GOMAXPROCS(1)
		l.connectTLS(words[0], authority, words[1])
		run = l.runTLS
	}
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		seconds, err := strconv.ParseFloat(lines.Text(), 64)
		must(err, "SECONDS")
		fmt.Println(run(time.Duration(seconds * float64(time.Second))))
	}
}

func (l *load) connect(address, path string) {
	to, err := net.ResolveTCPAddr("tcp4", address)
	must(err, "ADDRESS")
	where := &syscall.SockaddrInet4{Port: to.Port}
	copy(where.Addr[:], to.IP.To4())
	l.epoll, err = syscall.EpollCreate1(0)
	must(err, "epoll")
	for _, frame := range framesOf(path) {
		socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
		must(err, "socket")
		must(syscall.SetsockoptInt(socket, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1), "TCP_NODELAY")
		// Linux gives up after two minutes; a limit of ours (SO_SNDTIMEO) would let signals of Go's
		// scheduler end it. A write never waits: the last response has come, so its buffer is empty.
		must(syscall.Connect(socket, where), "connect")
		event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(len(l.connections))}
		must(syscall.EpollCtl(l.epoll, syscall.EPOLL_CTL_ADD, socket, &event), "epoll")
		l.connections = append(l.connections, &connection{socket: socket, frame: frame})
	}
}

func framesOf(path string) [][]byte {
	rest, err := os.ReadFile(path)
	must(err, "FRAMES")
	var frames [][]byte
	for len(rest) > 0 {
		end := 4 + int(binary.BigEndian.Uint32(rest))
		frames = append(frames, rest[:end])
		rest = rest[end:]
	}
	return frames
}

// stamp gives the connection's next request its numbers.
func (l *load) stamp(c *connection) {
	c.number++
	binary.BigEndian.PutUint32(c.frame[correlationAt:], c.number)
	for _, at := range l.counters {
		binary.BigEndian.PutUint64(c.frame[at:], uint64(c.number))
	}
}

// accept ends the program if a response is not a good one.
func (l *load) accept(c *connection, response []byte) {
	if len(response) < l.checkAt+len(l.check) ||
		binary.BigEndian.Uint32(response[4:]) != c.number ||
		!bytes.Equal(response[l.checkAt:l.checkAt+len(l.check)], l.check) {
		must(fmt.Errorf("%x", response), "a request was refused")
	}
}

func (l *load) send(c *connection) {
	l.stamp(c)
	sent, err := syscall.Write(c.socket, c.frame)
	must(err, "write")
	if sent != len(c.frame) {
		must(fmt.Errorf("%d of %d bytes", sent, len(c.frame)), "write")
	}
}

// receive reads what has come and says whether the response is whole.
func (l *load) receive(c *connection, buffer []byte) bool {
	count, err := syscall.Read(c.socket, buffer)
	must(err, "read")
	if count == 0 {
		must(fmt.Errorf("the broker has closed the connection"), "read")
	}
	response := buffer[:count]
	if c.received != nil {
		c.received = append(c.received, response...)
		response = c.received
	}
	if len(response) < 4 || len(response) < 4+int(binary.BigEndian.Uint32(response)) {
		c.received = append([]byte{}, response...)
		return false
	}
	c.received = nil
	l.accept(c, response)
	l.responses++
	return true
}

func (l *load) run(duration time.Duration) int {
	l.responses = 0
	for _, c := range l.connections {
		l.send(c)
	}
	outstanding := len(l.connections)
	buffer := make([]byte, bufferBytes)
	events := make([]syscall.EpollEvent, 512)
	end := time.Now().Add(duration)
	isOver := false
	for wakeUps := 0; outstanding > 0; wakeUps++ {
		count, err := syscall.EpollWait(l.epoll, events, int(limit.Milliseconds()))
		if err == syscall.EINTR {
			continue
		}
		must(err, "epoll")
		if count == 0 {
			must(fmt.Errorf("%d requests had no response within %v", outstanding, limit), "read")
		}
		if wakeUps%looksAtClock == 0 {
			isOver = time.Now().After(end)
		}
		for _, event := range events[:count] {
			c := l.connections[event.Fd]
			switch {
			case !l.receive(c, buffer):
			case isOver:
				outstanding--
			default:
				l.send(c)
			}
		}
	}
	return l.responses
}
