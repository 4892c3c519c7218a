// Keeps documents true. A page's code stands in fences that name what holds it:
//
//   ```cpp          is compiled, as one program with the page's other such blocks
//   ```text         is what that program prints, all such blocks one after another
//   ```cpp FILE     stands in FILE of this project, whatever its spaces; "// ..." leaves something out
//                   (also ```cmake FILE and the like)
//   ```text FILE    is compared with something else by the test FILE
//   ```sh           is run by doc_commands.sh beside this file, line by line
//
// A table whose last column is called "held by" says there which tests hold each of its rows: `test_name` and
// then, in quotes or brackets, names of its cases or [tags].
//
// A page with another kind of fence, or with code that is only indented, which nobody could hold, is refused.
//
//   doc_program code PAGE.md OUT.cpp
//       writes the program: blocks with a main of their own become functions, the others, put together, one
//       more
//   doc_program check PAGE.md PROGRAM
//       runs the program and compares what it prints with the page
//   doc_program quotes PAGE.md ROOT
//       looks for the blocks that name a file below ROOT
//   doc_program commands PAGE.md
//       prints the lines of ```sh without their comments
//   doc_program lines PAGE.md FILES...
//       finds every statement of the page's tables, `like = this;`, in one of the files, whatever its spaces
//       and lines
//   doc_program held PAGE.md FILES...
//       finds every file of tests that the page names, and every test that a table's column "held by" names

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

struct Block {
  std::string language;
  std::string file;  // that it names, or empty
  std::string text;
};

struct Page {
  std::vector<Block> blocks;
  std::vector<std::string> prose;  // the lines outside of blocks
};

Block opened(const std::string& info, const std::string& place) {
  std::istringstream words(info);
  Block block;
  std::string more;
  words >> block.language >> block.file >> more;
  const bool without_file = block.language == "cpp" || block.language == "text" || block.language == "sh";
  if (block.language.empty() || !more.empty() || (block.file.empty() && !without_file))
    throw std::runtime_error(place + "a fence of no known kind: ```" + info);
  return block;
}

Page parsed(const std::string& path) {
  Page page;
  std::istringstream lines(read_file(path));
  std::string line;
  bool open = false;
  std::size_t indent = 0;  // of the fence: in a list it is indented, and its lines with it
  for (int number = 1; std::getline(lines, line); ++number) {
    const std::string place = path + ", line " + std::to_string(number) + ": ";
    const std::size_t start = std::min(line.find_first_not_of(' '), line.size());
    if (start < 4 && line.compare(start, 3, "```") == 0) {
      if (!open) {
        page.blocks.push_back(opened(line.substr(start + 3), place));
        indent = start;
      } else if (line.size() != start + 3) {
        throw std::runtime_error(place + "the fence before it is not closed");
      }
      open = !open;
    } else if (open) {
      page.blocks.back().text += line.substr(std::min(indent, start)) + "\n";
    } else if ((start >= 4 && start < line.size()) || line[0] == '\t') {
      throw std::runtime_error(place + "indented by four or more: put code into a fence");
    } else {
      page.prose.push_back(line);
    }
  }
  if (open) throw std::runtime_error(path + ": the last fence is not closed");
  return page;
}

/// Moves the #include lines of a block to `includes`.
std::string without_includes(const std::string& code, std::string& includes) {
  std::istringstream lines(code);
  std::string rest;
  for (std::string line; std::getline(lines, line);) {
    (line.starts_with("#include") ? includes : rest) += line + "\n";
  }
  return rest;
}

std::string program(const Page& page) {
  std::string includes;
  std::string functions;
  std::string calls;
  std::string body;
  for (const Block& block : page.blocks) {
    if (block.language != "cpp" || !block.file.empty()) continue;
    std::string code = without_includes(block.text, includes);
    constexpr std::string_view main = "int main() {\n";
    const std::size_t at = code.find(main);
    if (at == std::string::npos) {
      if (body.empty()) calls += "  page();\n";
      body += code + "\n";
      continue;
    }
    const std::string name = "block_" + std::to_string(std::count(calls.begin(), calls.end(), '\n'));
    functions += "namespace " + name + " {\n" + code.replace(at, main.size(), "void run() {\n") + "}\n\n";
    calls += "  " + name + "::run();\n";
  }
  return includes + "\n" + functions + "namespace {\n[[maybe_unused]] void page() {\n" + body +
         "}\n}  // namespace\n\nint main() {\n" + calls + "}\n";
}

std::string output_of(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run " + command);
  std::string output;
  std::array<char, 4096> buffer{};
  for (std::size_t n = 0; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    output.append(buffer.data(), n);
  if (pclose(pipe) != 0) throw std::runtime_error(command + " failed");
  return output;
}

int check(const std::string& path, const std::string& command) {
  std::string expected;
  for (const Block& block : parsed(path).blocks) {
    if (block.language == "text" && block.file.empty()) expected += block.text;
  }
  const std::string actual = output_of(command);
  if (actual == expected && !expected.empty()) return 0;
  std::cerr << path << " says:\n" << expected << "\nits code prints:\n" << actual;
  return 1;
}

std::string without_spaces(std::string text) {
  const auto is_space = [](unsigned char c) { return std::isspace(c) != 0; };
  text.erase(std::remove_if(text.begin(), text.end(), is_space), text.end());
  return text;
}

void require_quotes(const Page& page, const std::string& root) {
  for (const Block& block : page.blocks) {
    if (block.file.empty()) continue;
    const std::string file = without_spaces(read_file(root + "/" + block.file));
    if (block.language == "text") continue;
    constexpr std::string_view cut = "//...";
    const std::string code = without_spaces(block.text);
    for (std::size_t start = 0, end = 0; end != std::string::npos; start = end + cut.size()) {
      end = code.find(cut, start);
      const std::string part = code.substr(start, end == std::string::npos ? end : end - start);
      if (part.empty() || file.find(part) == std::string::npos)
        throw std::runtime_error(block.file + " does not have the page's\n" + block.text);
    }
  }
}

void print_commands(const Page& page) {
  for (const Block& block : page.blocks) {
    if (block.language != "sh") continue;
    std::istringstream lines(block.text);
    for (std::string line; std::getline(lines, line);) {
      line.erase(std::min(line.find(" #"), line.size()));
      line.erase(line.find_last_not_of(' ') + 1);
      if (!line.empty()) std::cout << line << "\n";
    }
  }
}

/// What ends in a semicolon and stands between backticks in a table.
std::vector<std::string> statements_of(const Page& page) {
  std::vector<std::string> found;
  for (const std::string& line : page.prose) {
    if (line[0] != '|') continue;
    std::size_t open = line.find('`');
    while (open != std::string::npos) {
      const std::size_t close = line.find('`', open + 1);
      if (close == std::string::npos) throw std::runtime_error("a backtick is left open: " + line);
      if (line[close - 1] == ';') found.push_back(line.substr(open + 1, close - open - 1));
      open = line.find('`', close + 1);
    }
  }
  return found;
}

void require_lines(const std::vector<std::string>& files, const Page& page) {
  std::string code;
  for (const std::string& file : files) code += without_spaces(read_file(file)) + "\n";
  const std::vector<std::string> statements = statements_of(page);
  if (statements.empty()) throw std::runtime_error("the page has no statement");
  for (const std::string& statement : statements) {
    if (code.find(without_spaces(statement)) == std::string::npos)
      throw std::runtime_error("no file has the page's " + statement);
  }
}

/// A file of tests: its name, as ctest has it, and the names and tags of its cases.
struct TestFile {
  std::string name;
  std::vector<std::string> cases;
  std::string tags;
};

/// The string literals that stand side by side from `at` on, put together; `at` moves behind them.
std::string literal_at(const std::string& code, std::size_t& at) {
  std::string text;
  const auto skip_spaces = [&] {
    while (at < code.size() && std::isspace(static_cast<unsigned char>(code[at])) != 0) ++at;
  };
  for (skip_spaces(); at < code.size() && code[at] == '"'; skip_spaces()) {
    for (++at; at < code.size() && code[at] != '"'; ++at) {
      if (code[at] == '\\') ++at;
      text += code[at];
    }
    ++at;
  }
  return text;
}

TestFile test_file(const std::string& path) {
  const std::size_t start = path.rfind('/') + 1;
  TestFile file{path.substr(start, path.rfind('.') - start), {}, {}};
  const std::string code = read_file(path);
  constexpr std::string_view macro = "TEST_CASE(";
  for (std::size_t at = 0; (at = code.find(macro, at)) != std::string::npos;) {
    at += macro.size();
    file.cases.push_back(literal_at(code, at));
    if (code[at] == ',') file.tags += literal_at(code, ++at);
  }
  return file;
}

/// The cells of a table's line, without the spaces around them.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  for (std::size_t start = 1, end = 0; (end = line.find('|', start)) != std::string::npos; start = end + 1) {
    const std::string cell = line.substr(start, end - start);
    const std::size_t first = std::min(cell.find_first_not_of(' '), cell.size());
    cells.push_back(cell.substr(first, cell.find_last_not_of(' ') + 1 - first));
  }
  return cells;
}

/// The file of that name.
const TestFile& file_of(const std::vector<TestFile>& files, const std::string& name) {
  const auto is_it = [&](const TestFile& file) { return file.name == name; };
  const auto found = std::find_if(files.begin(), files.end(), is_it);
  if (found == files.end()) throw std::runtime_error("there is no file of tests " + name);
  return *found;
}

/// Every `test_name` of the line is a file, in a table or not.
void require_known_files(const std::string& line, const std::vector<TestFile>& files) {
  constexpr std::string_view mark = "`test_";
  for (std::size_t at = 0; (at = line.find(mark, at)) != std::string::npos; at += mark.size())
    file_of(files, line.substr(at + 1, line.find('`', at + 1) - at - 1));
}

/// What one cell of the column "held by" names is in the files.
void require_held(const std::string& cell, const std::vector<TestFile>& files) {
  const TestFile* file = nullptr;
  bool held = false;
  for (std::size_t at = 0; at < cell.size(); ++at) {
    if (cell[at] != '`' && cell[at] != '"' && cell[at] != '[') continue;
    const std::size_t end = cell.find(cell[at] == '[' ? ']' : cell[at], at + 1);
    if (end == std::string::npos) throw std::runtime_error("a name has no end: " + cell);
    const std::string name = cell.substr(at + 1, end - at - 1);
    if (cell[at] == '`') {
      file = &file_of(files, name);
    } else {
      if (file == nullptr) throw std::runtime_error("no file is named before " + name);
      const bool has = cell[at] == '['
                           ? file->tags.find("[" + name + "]") != std::string::npos
                           : std::find(file->cases.begin(), file->cases.end(), name) != file->cases.end();
      if (!has) throw std::runtime_error(file->name + " has no test " + cell.substr(at, end + 1 - at));
      held = true;
    }
    at = end;
  }
  if (!held) throw std::runtime_error("no test holds a row, the column says \"" + cell + "\"");
}

void require_tests(const std::vector<std::string>& paths, const Page& page) {
  std::vector<TestFile> files;
  for (const std::string& path : paths) files.push_back(test_file(path));
  std::size_t rows = 0;
  std::size_t columns = 0;  // of the table that has the column
  for (const std::string& line : page.prose) {
    require_known_files(line, files);
    const std::vector<std::string> cells = line[0] == '|' ? cells_of(line) : std::vector<std::string>();
    if (cells.empty()) {
      columns = 0;
    } else if (columns == 0) {
      if (cells.back() == "held by") columns = cells.size();
    } else if (cells.back().empty() || cells.back().find_first_not_of('-') != std::string::npos) {
      if (cells.size() != columns)
        throw std::runtime_error("the table has another number of columns: " + line);
      require_held(cells.back(), files);
      ++rows;
    }
  }
  if (rows == 0) throw std::runtime_error("no table of the page has a column \"held by\"");
  std::cout << rows << " rows are held by tests\n";
}

int run(const std::vector<std::string>& arguments) {
  const auto is = [&](const char* mode, std::size_t size) {
    return !arguments.empty() && arguments[0] == mode && arguments.size() == size;
  };
  if (is("code", 3)) {
    std::ofstream file(arguments[2]);
    file << program(parsed(arguments[1]));
    file.close();
    if (!file) throw std::runtime_error("cannot write " + arguments[2]);
  } else if (is("check", 3)) {
    return check(arguments[1], arguments[2]);
  } else if (is("quotes", 3)) {
    require_quotes(parsed(arguments[1]), arguments[2]);
  } else if (is("commands", 2)) {
    print_commands(parsed(arguments[1]));
  } else if (arguments.size() >= 3 && arguments[0] == "held") {
    require_tests({arguments.begin() + 2, arguments.end()}, parsed(arguments[1]));
  } else if (arguments.size() >= 3 && arguments[0] == "lines") {
    require_lines({arguments.begin() + 2, arguments.end()}, parsed(arguments[1]));
  } else {
    throw UsageError(
        "usage: doc_program code PAGE.md OUT.cpp | check PAGE.md PROGRAM | quotes PAGE.md ROOT | commands "
        "PAGE.md | "
        "lines PAGE.md FILE... | held PAGE.md FILE...");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const UsageError& error) {
    std::cerr << error.what() << '\n';
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "doc_program: " << error.what() << '\n';
    return 1;
  }
}
