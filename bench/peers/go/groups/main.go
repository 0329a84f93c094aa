// Members of many consumer groups (KIP-848), which join, settle and heartbeat as their broker says.
//
// Usage: groups ADDRESS TOPIC PARTITIONS PREFIX GROUPS MEMBERS CONNECTIONS JOIN_SECONDS LIMIT_SECONDS
//
// Each of the groups PREFIX-N gets MEMBERS members, which subscribe to the topic. They share the
// connections: requests are told apart by their correlation ids. It prints "ready" when the
// connections are open, and does what each line says that it reads. It ends with a sentence if the
// members could not join or leave within LIMIT_SECONDS, or a response took longer than that.
//
//	join            all members join, evenly within JOIN_SECONDS. Prints the seconds from the first
//	                request until in every group the members have one epoch and all partitions, one
//	                of them at most one more than another, and have acknowledged them; and the 99th
//	                percentile of the milliseconds in which the responses came until then
//	spread          all rest for one interval, in which their heartbeats are spread evenly. Prints
//	                the seconds of the interval
//	rest SECONDS    all go on for so long; prints how many responses came, and the 99th percentile of
//	                the milliseconds in which they did
//	leave           all members leave at once, and again where the coordinator is not there yet;
//	                prints how many
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

func fail(format string, values ...any) {
	fmt.Fprintf(os.Stderr, "groups: "+format+"\n", values...)
	os.Exit(1)
}

func must(err error, what string) {
	if err != nil {
		fail("%s: %v", what, err)
	}
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	must(err, "a number")
	return value
}

func seconds(text string) time.Duration {
	value, err := strconv.ParseFloat(text, 64)
	must(err, "SECONDS")
	return time.Duration(value * float64(time.Second))
}

func main() {
	if len(os.Args) != 10 {
		fmt.Fprintln(os.Stderr, "usage: groups ADDRESS TOPIC PARTITIONS PREFIX GROUPS MEMBERS "+
			"CONNECTIONS JOIN_SECONDS LIMIT_SECONDS")
		os.Exit(2)
	}
	runtime.GOMAXPROCS(1)
	words := os.Args[1:]
	all := newCrowd(words[1], number(words[2]), words[3], number(words[4]), number(words[5]))
	all.limit = seconds(words[8])
	all.connect(words[0], number(words[6]))
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "join":
			took, times := all.join(seconds(words[7]))
			fmt.Println(took.Seconds(), share(times, 99))
		case "spread":
			fmt.Println(all.spread().Seconds())
		case "rest":
			times := all.rest(seconds(rest))
			fmt.Println(len(times), share(times, 99))
		case "leave":
			fmt.Println(all.leave())
		default:
			fail("%q is neither join, spread, rest nor leave", word)
		}
	}
}

// share returns the milliseconds within which so many of a hundred responses came.
func share(times []time.Duration, percent int) float64 {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	at := (len(times)*percent + 99) / 100
	return float64(times[max(at, 1)-1].Microseconds()) / 1000
}
