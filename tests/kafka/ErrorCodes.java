import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

/** Prints every error code with its name, and whether a client may send the request again. */
public class ErrorCodes {
    public static void main(String[] arguments) {
        for (Errors error : Errors.values()) {
            boolean isRetriable = error.exception() instanceof RetriableException;
            System.out.println(error.code() + " " + error.name() + " " + isRetriable);
        }
    }
}
