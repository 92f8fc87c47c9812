#include "core/printable.h"

#include <catch2/catch.hpp>

using namespace lockstep;

TEST_CASE("printable: ordinary text is unchanged") {
  CHECK(printable("") == "");
  CHECK(printable("mnist") == "mnist");
  CHECK(printable("größe 模型 🙂") == "größe 模型 🙂");
  CHECK(printable(std::string(60, 'a')) == std::string(60, 'a'));
}

TEST_CASE("printable: line breaks and terminal control characters are escaped") {
  CHECK(printable("a\nb\r\tc") == "a\\nb\\r\\tc");
  CHECK(printable(std::string("a\0b", 3)) == "a\\x00b");
  CHECK(printable("\x1b[31mred") == "\\x1b[31mred");
  CHECK(printable("\x7f") == "\\x7f");
  CHECK(printable("\xff\xfe") == "\\xff\\xfe");
  CHECK(printable("run\u202egnp.exe") == "run\\u202egnp.exe");  // shown as runexe.png
  CHECK(printable("\u0085") == "\\u0085");
}

TEST_CASE("printable: a shell word is quoted if necessary") {
  CHECK(shell_word("runs/a_b-c.1") == "runs/a_b-c.1");
  CHECK(shell_word("") == "''");
  CHECK(shell_word("my runs") == "'my runs'");
  CHECK(shell_word("my 'runs") == "'my '\\''runs'");
  CHECK(shell_word("$(x)") == "'$(x)'");
}

TEST_CASE("printable: long text is truncated between characters") {
  CHECK(printable("abcdef", 3) == "abc...");
  CHECK(printable("aß", 2) == "a...");  // the second character exceeds the limit
  CHECK(printable("aß", 3) == "aß");
  CHECK(printable(std::string(1'000'000, 'a')).size() == 63);
}

TEST_CASE("printable: the first byte that is not UTF-8 is found") {
  CHECK(find_invalid_utf8("plain, größe, 模型, 🙂") == std::string_view::npos);
  CHECK(find_invalid_utf8("ab\xff") == 2);
  CHECK(find_invalid_utf8("ab\xc3") == 2);                // truncated character
  CHECK(find_invalid_utf8("\xc0\xaf") == 0);              // overlong
  CHECK(find_invalid_utf8("\xe0\x80\xaf") == 0);          // overlong
  CHECK(find_invalid_utf8("\xed\xa0\x80") == 0);          // a surrogate
  CHECK(find_invalid_utf8("\xf4\x90\x80\x80") == 0);      // above U+10FFFF
  CHECK(find_invalid_utf8("\xf8\x88\x80\x80\x80") == 0);  // five bytes
  CHECK(find_invalid_utf8("\x80") == 0);                  // no lead byte
}
