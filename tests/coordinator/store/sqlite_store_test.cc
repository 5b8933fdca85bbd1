// The store's contract on SQLite, and tests of SQLite alone.

#include <sqlite3.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "coordinator/store/schema.h"
#include "coordinator/store/sql_database.h"
#include "tests/contract/store_contract.h"
#include "tests/support/process.h"

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class FileDatabase final : public TestDatabase {
 public:
  std::string file() const { return folder_ / "a store.db"; }
  std::string url() const override { return "sqlite://" + file(); }
  bool shared() const override { return true; }

 private:
  test::TemporaryFolder folder_;
};

class MemoryDatabase final : public TestDatabase {
 public:
  std::string url() const override { return "sqlite::memory:"; }
  bool shared() const override { return false; }
};

const TestDatabaseFactory kFile = {
    "File", [] { return std::make_unique<FileDatabase>(); },
    [] { return std::make_unique<FileDatabase>(); }};
const TestDatabaseFactory kMemory = {
    "Memory", [] { return std::make_unique<MemoryDatabase>(); },
    [] { return std::make_unique<MemoryDatabase>(); }};

INSTANTIATE_TEST_SUITE_P(Sqlite, StoreContract,
                         ::testing::Values(kFile, kMemory), DatabaseName);

TEST(SqliteStoreTest, RefusesMalformedUrls) {
  for (const char* url :
       {"", "x", "mysql://host/db", "sqlite:", "sqlite:///", "sqlite://a.db",
        "sqlite:relative.db", "postgresql:database", "sqlite:///folder/",
        "/var/lib/a.db"}) {
    const auto store = OpenStore(url);
    ASSERT_FALSE(store) << url;
    EXPECT_EQ(store.error().code, Code::kInvalidArgument) << url;
    EXPECT_THAT(store.error().message, HasSubstr("sqlite:///path/file.db"));
  }
}

TEST(SqliteStoreTest, LetsDevicesAskInVainWhileSomebodyWrites) {
  const FileDatabase file;
  const auto store = OpenStore(file.url()).value();
  const auto other = OpenSqlite(file.url()).value();
  EXPECT_TRUE(
      other->Run(TransactionMode::kWrite, [&](SqlTransaction&) -> Status {
        // A write would wait for the end of this one, which waits for it.
        EXPECT_THAT(Lease(*store, 1, 10), ::testing::IsEmpty());
        return {};
      }));
  Enqueue(*store, {TestTask(1)});
  EXPECT_EQ(Lease(*store, 1, 10).size(), 1U);
}

TEST(SqliteStoreTest, SaysWhenTheBuildHasNoPostgres) {
  const auto store = OpenStore("postgresql://u@/db?host=/nowhere");
  ASSERT_FALSE(store);
#ifdef UCUDNN_WITH_POSTGRES
  EXPECT_EQ(store.error().code, Code::kUnavailable);
#else
  EXPECT_EQ(store.error().code, Code::kUnimplemented);
  EXPECT_THAT(store.error().message, HasSubstr("UCUDNN_WITH_POSTGRES"));
#endif
}

TEST(SqliteStoreTest, SaysWhichFileCannotBeOpened) {
  const auto store = OpenStore("sqlite:///does/not/exist.db");
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, Code::kUnavailable);
  EXPECT_THAT(store.error().message, HasSubstr("/does/not/exist.db"));
}

TEST(SqliteStoreTest, RefusesAFileThatIsNotADatabase) {
  const FileDatabase database;
  std::ofstream(database.file()) << std::string(4096, 'x');
  const auto store = OpenStore(database.url());
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, Code::kDataLoss);
}

TEST(SqliteStoreTest, OpensAFileFromManyThreadsAtOnce) {
  const FileDatabase database;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const auto store = OpenStore(database.url());
      ASSERT_TRUE(store) << store.error().message;
      EXPECT_TRUE((*store)->CheckWritable());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Changes the file behind the store's back.
void Exec(const std::string& file, const std::string& sql) {
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(file.c_str(), &handle), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, nullptr),
            SQLITE_OK)
      << sqlite3_errmsg(handle);
  sqlite3_close(handle);
}

TEST(SqliteStoreTest, RefusesADatabaseOfAnotherVersion) {
  const FileDatabase database;
  ASSERT_TRUE(OpenStore(database.url()));
  for (const std::string version : {"18", "99"}) {
    Exec(database.file(), "UPDATE schema_version SET version = " + version);
    const auto store = OpenStore(database.url());
    ASSERT_FALSE(store) << version;
    EXPECT_EQ(store.error().code, Code::kFailedPrecondition);
    EXPECT_THAT(
        store.error().message,
        AllOf(HasSubstr("has schema version " + version),
              HasSubstr(fmt::format("writes version {}:", kSchemaVersion)),
              HasSubstr("profiles export")));
  }
}

TEST(SqliteStoreTest, KeepsADatabaseOfSomethingElseAsItIs) {
  const FileDatabase database;
  Exec(database.file(), "CREATE TABLE plans (x INTEGER)");
  ASSERT_FALSE(OpenStore(database.url()));
  Exec(database.file(), "DROP TABLE plans");
  EXPECT_TRUE(OpenStore(database.url()));
}

TEST(SqliteStoreTest, ReportsAFullDisk) {
  const FileDatabase file;
  const auto database = OpenSqlite(file.url()).value();
  const auto run = [&](const std::string& script) {
    return database->Write(
        [&](SqlTransaction& sql) { return sql.ExecuteScript(script); });
  };
  ASSERT_TRUE(run("CREATE TABLE a (x BLOB); PRAGMA max_page_count = 10"));
  const Status full = run("INSERT INTO a VALUES (zeroblob(1000000))");
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Code::kResourceExhausted);
  // The transaction was rolled back, and the next one runs.
  EXPECT_TRUE(run("INSERT INTO a VALUES (1)"));
}

// Clients read errors; where the database is, is none of their business.
TEST(SqliteStoreTest, FailsWithoutTellingItsFile) {
  const FileDatabase file;
  const auto store = OpenStore(file.url()).value();
  Exec(file.file(), "DROP TABLE plans");
  const auto failed = store->plans.FindPlan("k");
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, HasSubstr("SQLite: no such table"));
  EXPECT_THAT(failed.error().message, Not(HasSubstr(file.file())));
}

TEST(SqliteStoreTest, LetsReadersContinueDuringAWrite) {
  const FileDatabase file;
  const auto store = OpenStore(file.url()).value();
  const std::int64_t plan = store->plans.CreatePlan(TestPlan("k"))->plan.id;
  auto database = OpenSqlite(file.url()).value();
  const Status status = database->Write([&](SqlTransaction& sql) -> Status {
    UCUDNN_RETURN_IF_ERROR(sql.Execute("UPDATE plans SET body = x'00'"));
    EXPECT_EQ(store->plans.GetPlanBody(plan), TestPlan("k").body);
    return {};
  });
  EXPECT_TRUE(status);
  EXPECT_EQ(store->plans.GetPlanBody(plan), std::string(1, '\0'));
}

}  // namespace
}  // namespace ucudnn
