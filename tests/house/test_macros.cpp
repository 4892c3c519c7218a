// Macros that other people's headers define, before every header of Heed: min and max of windows.h, check and
// require of macOS's AssertMacros.h, length of Rinternals.h. The headers of std:: and Eigen, which have their
// own ways, come before them. All of Heed's headers come from a list that CMake writes.

#include "std_headers.inc"  // every header outside of Heed that Heed's headers include

// windows.h
#define min(a, b) (((a) < (b)) ? (a) : (b))
#define max(a, b) (((a) > (b)) ? (a) : (b))
#define near
#define far
#define NEAR near
#define FAR far
#define small char
#define hyper __int64
#define interface struct
#define cdecl _cdecl
#define pascal __stdcall
#define CALLBACK __stdcall
#define ERROR 0
#define NO_ERROR 0L
#define IN
#define OUT
#define OPTIONAL
#define CONST const
#define VOID void
#define DELETE 0x00010000L
#define STRICT 1
#define ABSOLUTE 1
#define RELATIVE 2
#define TRANSPARENT 1
#define OPAQUE 2
#define RGB(r, g, b) ((r) | (g) << 8 | (b) << 16)
#define GetMessage GetMessageW
#define DrawText DrawTextW
#define LoadImage LoadImageW
#define Yield()
// Xlib.h and X.h
#define Bool int
#define Status int
#define True 1
#define False 0
#define None 0L
#define Success 0
#define Always 2
#define Complex 0
#define Convex 2
#define Above 0
#define Below 1
#define Unsorted 0
#define GrayScale 1
#define KeyPress 2
#define Expose 12
#define CurrentTime 0L
// AssertMacros.h of macOS
#define check(assertion) assertion_of_another_header(assertion)
#define require(assertion, label) assertion_of_another_header(assertion, label)
#define verify(assertion) assertion_of_another_header(assertion)
#define check_noerr(error) assertion_of_another_header(error)
#define require_noerr(error, label) assertion_of_another_header(error, label)
#define require_action(assertion, label, action) assertion_of_another_header(assertion, label, action)
#define require_string(assertion, label, message) assertion_of_another_header(assertion, label, message)
// Rinternals.h, Rmath.h; R_ext/RS.h
#define length Rf_length
#define error Rf_error
#define warning Rf_warning
#define eval Rf_eval
#define match Rf_match
#define install Rf_install
#define duplicate Rf_duplicate
#define nrows Rf_nrows
#define ncols Rf_ncols
#define cons Rf_cons
#define sign Rf_sign
#define choose Rf_choose
#define beta Rf_beta
#define prec fprec
#define Free(p) R_chk_free(p)
#define Calloc(n, t) R_chk_calloc(n, sizeof(t))
// Arduino.h and f2c.h
#define abs(x) ((x) > 0 ? (x) : -(x))
#define round(x) ((x) >= 0 ? (long)((x) + 0.5) : (long)((x)-0.5))
#define constrain(x, low, high) ((x) < (low) ? (low) : ((x) > (high) ? (high) : (x)))
#define radians(deg) ((deg)*0.017453292519943295)
#define degrees(rad) ((rad)*57.29577951308232)
#define sq(x) ((x) * (x))
#define bit(b) (1UL << (b))
#define lowByte(w) ((w)&0xff)
#define highByte(w) ((w) >> 8)
#define F(text) text
#define PI 3.1415926535897932
#define HIGH 0x1
#define LOW 0x0
#define INPUT 0x0
#define OUTPUT 0x1
#define DEFAULT 1
#define DEC 10
#define HEX 16
#define BIN 2
// curses.h, termios.h, sys/sysmacros.h, sys/param.h, complex.h
#define OK (0)
#define ERR (-1)
#define ECHO 0000010
#define major(dev) gnu_dev_major(dev)
#define minor(dev) gnu_dev_minor(dev)
#define roundup(x, y) ((((x) + ((y)-1)) / (y)) * (y))
#define howmany(x, y) (((x) + ((y)-1)) / (y))
#define I _Complex_I
#define complex _Complex
// glib.h, gtest.h, catch.hpp, doctest.h, boost/test, glog
#define TRUE 1
#define FALSE 0
#define MIN(a, b) (((a) < (b)) ? (a) : (b))
#define MAX(a, b) (((a) > (b)) ? (a) : (b))
#define ABS(a) (((a) < 0) ? -(a) : (a))
#define CLAMP(x, low, high) (((x) > (high)) ? (high) : (((x) < (low)) ? (low) : (x)))
#define CHECK(x) assertion_of_another_header(x)
#define REQUIRE(x) assertion_of_another_header(x)
#define TEST(suite, name) void suite##name()
#define FAIL() assertion_of_another_header()
#define INFO 0
#define WARN(x) assertion_of_another_header(x)
#define LOG(severity) assertion_of_another_header(severity)
#define SECTION(name) if (name)
#define CAPTURE(x) assertion_of_another_header(x)
// Qt
#define signals public
#define slots
#define emit
#define foreach(variable, container) for (variable : container)
#define forever for (;;)
// Python's structmember.h, Linux's kernel and everybody's own
#define T_INT 1
#define READONLY 1
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define BIT(n) (1 << (n))
#define ALIGN(x, a) (((x) + (a)-1) / (a) * (a))
#define unix 1
#define linux 1
#define ASSERT(x) assertion_of_another_header(x)
#define assert_true(x) assertion_of_another_header(x)
#define UNUSED(x) (void)(x)
#define SQR(x) ((x) * (x))
#define DEBUG 1
#define VERSION "1.0"
#define PACKAGE "package"
#define SIZE 1024
#define LENGTH 80
#define DIM 3
#define EPS 1e-9
#define EPSILON 1e-9
#define INFINITE 0xFFFFFFFF
#define N 100
#define TABLE "table"
#define PAGE_SIZE 4096

#include "heed_headers.inc"

int main() {
  const Eigen::MatrixXf x = Eigen::MatrixXf::Identity(3, 3);
  const Eigen::MatrixXf out = heed::scaled_dot_product_attention(x, x, x, {.mask = heed::causal()});
  return out.row(0) == x.row(0) ? 0 : 1;
}
